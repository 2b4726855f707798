//! One exchange: the form with its adapter, before the request and after the reply in a fresh instance each, gate and witness
//! included, against plain hyper. Client and server on one processor, so that what is compared is the work of both.

use anyhow::{Result, ensure};
use bytes::Bytes;
use form::Meaning;
use harness::adapter_rig::{API_KEY, AdapterRig, guest, instruction};
use harness::rail::Reply;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rail::Task;
use tokio::net::TcpStream;

use super::{Spread, meaning, on_one_core, ratio, row, timed};

pub(crate) fn run(calls: usize) -> Result<()> {
    let (ours, plain) = on_one_core(async move {
        let rig = AdapterRig::with(|_| Reply::says(200, "paid")).await;
        rig.rail.forget();
        let loaded = rig.load_bytes(&guest("pays_and_tells")).await?;
        let stream = TcpStream::connect(rig.rail.address).await?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let body = "{\"amount\":\"10.50\",\"currency\":\"ZMW\",\"payee\":\"260961234567\",\"key\":\"0198c5a2-0000-4000-8000-000000000000\"}";
        let payment = instruction();
        let (mut through_us, mut natively) = (Vec::new(), Vec::new());
        for round in 0..calls + calls / 10 {
            let (attempt, took) =
                timed(loaded.call(&rig.sandbox, Task::Disburse, payment.clone(), None)).await;
            ensure!(meaning(&attempt) == Some(Meaning::Success), "{attempt:?}");
            let request = Request::post("/pay")
                .header("host", rig.rail.address.to_string())
                .header("content-type", "application/json")
                .header("x-reference-id", "0198c5a2-0000-4000-8000-000000000000")
                .header("x-api-key", API_KEY)
                .body(Full::new(Bytes::from_static(body.as_bytes())))?;
            let native = async {
                sender.ready().await?;
                anyhow::Ok(sender.send_request(request).await?.into_body().collect().await?.to_bytes())
            };
            let (reply, native_took) = timed(native).await;
            ensure!(reply? == "paid");
            if round >= calls / 10 {
                through_us.push(took);
                natively.push(native_took);
            }
        }
        anyhow::Ok((Spread::of(through_us), Spread::of(natively)))
    })??;
    row(
        "one HTTP exchange of a payment (a fresh instance to fill in, another to read; kept connection, gate and witness), against plain hyper",
        &ours.to_string(),
        &plain.to_string(),
        &format!("{:.1} ×", ratio(ours.p50(), plain.p50())),
        "≤ 2.5 ×",
    );
    Ok(())
}
