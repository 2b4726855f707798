//! Who takes a request to the rail.

use std::sync::Arc;

use bytes::Bytes;
use form::RequestTarget;
use http::{Request, Response};

use super::failure::NoWholeReply;
use super::send_progress::SendProgress;
use super::wire::{SendPermit, Wire};

#[derive(Debug)]
pub(crate) enum Carrier {
    Wire(Wire),
    /// No network: recorded exchanges.
    Script(Arc<dyn RailStub>),
}

/// Plays the rail in a conformance test.
pub trait RailStub: Send + Sync + std::fmt::Debug {
    /// What becomes of a request of a step.
    fn play(&self, step: &str, request: &Request<Bytes>) -> Scripted;
}

#[derive(Debug, Clone)]
pub enum Scripted {
    Reply(Response<Bytes>),
    /// The request arrives and nothing comes back.
    Silence,
    /// There is no connection.
    Unreachable,
}

impl Carrier {
    pub(super) async fn exchange(
        &self,
        step: &str,
        target: &RequestTarget,
        request: Request<Bytes>,
        response_bytes_max: usize,
        progress: &SendProgress,
        permit: &SendPermit,
    ) -> Result<Response<Bytes>, NoWholeReply> {
        match self {
            Self::Wire(wire) => wire.exchange(target, request, response_bytes_max, progress, permit).await,
            Self::Script(script) => {
                permit.may_begin()?;
                let scripted = script.play(step, &request);
                if !matches!(scripted, Scripted::Unreachable) {
                    progress.left_whole();
                }
                match scripted {
                    Scripted::Reply(reply) => {
                        progress.answered(reply.status().as_u16());
                        Ok(reply)
                    }
                    Scripted::Silence => Err(NoWholeReply::Broken("no reply".to_owned())),
                    Scripted::Unreachable => Err(NoWholeReply::Unreachable("no connection".to_owned())),
                }
            }
        }
    }
}
