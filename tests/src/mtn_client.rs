//! MTN's API by plain hyper: what an adapter is measured against.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rail_simulators::Simulator;
use serde_json::Value;
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::rail_run::rails_folder;

/// One connection to a simulator, with a token.
#[derive(Debug)]
pub struct MtnClient {
    sender: SendRequest<Full<Bytes>>,
    token: String,
    subscription: String,
}

impl MtnClient {
    pub async fn connect(simulator: &Simulator) -> Result<Self> {
        let stream = TcpStream::connect(simulator.address).await?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let subscription = secret("mtn_subscription_key")?;
        let login = BASE64.encode(format!("{}:{}", secret("mtn_api_user")?, secret("mtn_api_key")?));
        let request = Request::post("/disbursement/token/")
            .header("host", "simulator")
            .header("content-length", "0")
            .header("authorization", format!("Basic {login}"))
            .header("ocp-apim-subscription-key", &subscription)
            .body(Full::default())?;
        let reply = sender.send_request(request).await?.into_body().collect().await?;
        let reply: Value = serde_json::from_slice(&reply.to_bytes())?;
        let token = reply["access_token"].as_str().context("a token")?.to_owned();
        Ok(Self { sender, token, subscription })
    }

    /// One transfer under a key of its own, accepted.
    pub async fn pay(&mut self) -> Result<()> {
        let status = self.pay_as(&Uuid::new_v4().to_string(), "10.50").await?;
        ensure!(status == StatusCode::ACCEPTED, "{status}");
        Ok(())
    }

    pub async fn pay_as(&mut self, key: &str, amount: &str) -> Result<StatusCode> {
        let body = format!(
            r#"{{"amount":"{amount}","currency":"ZMW","externalId":"{key}","payee":{{"partyIdType":"MSISDN","partyId":"260961234567"}},"payerMessage":"","payeeNote":""}}"#
        );
        let request = Request::post("/disbursement/v1_0/transfer")
            .header("host", "simulator")
            .header("authorization", format!("Bearer {}", self.token))
            .header("ocp-apim-subscription-key", &self.subscription)
            .header("x-target-environment", "mtnzambia")
            .header("x-reference-id", key)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))?;
        self.sender.ready().await?;
        let reply = self.sender.send_request(request).await?;
        let status = reply.status();
        reply.into_body().collect().await?;
        Ok(status)
    }
}

fn secret(name: &str) -> Result<String> {
    Ok(std::fs::read_to_string(rails_folder().join("simulated").join(name))?.trim().to_owned())
}
