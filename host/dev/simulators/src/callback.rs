//! What a rail tells us unasked: without a signature, once or twice, early or late.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use url::Url;

use crate::order::ReceivedPayment;
use crate::world::World;

/// Calls back at the given times after now, where the payment named an address.
pub(crate) fn announce(world: &Arc<World>, order: &ReceivedPayment, times: &[Duration]) {
    let Some(url) = order.callback.clone() else { return };
    for after in times.iter().copied() {
        let (world, key, url) = (world.clone(), order.key.clone(), url.clone());
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            let found = world.ledger().look(&key);
            if let Some(body) = found.and_then(|(order, says)| world.rail.callback(&order, &says)) {
                // Nobody repeats a callback that did not arrive.
                send(&url, body).await.ok();
            }
        });
    }
}

async fn send(url: &Url, body: String) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let host = url.host_str().ok_or("an address without a host")?;
    let port = url.port_or_known_default().ok_or("an address without a port")?;
    let stream = TcpStream::connect((host, port)).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let talk = tokio::spawn(connection);
    let request = Request::post(url.path())
        .header("host", host)
        .header("user-agent", "LWAC Http Client 1.0")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))?;
    sender.send_request(request).await?;
    talk.abort();
    Ok(())
}
