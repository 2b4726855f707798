//! Who takes a request to the rail.

use std::sync::Arc;

use bytes::Bytes;
use form::Target;
use http::{Request, Response};

use super::failure::Failure;
use super::trail::Trail;
use super::wire::{Departure, Wire};

#[derive(Debug)]
pub(crate) enum Carrier {
    Wire(Wire),
    /// No network: recorded exchanges.
    Script(Arc<dyn Script>),
}

/// Plays the rail in a conformance test.
pub trait Script: Send + Sync + std::fmt::Debug {
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
        target: &Target,
        request: Request<Bytes>,
        response_bytes_max: usize,
        trail: &Trail,
        departure: &Departure,
    ) -> Result<Response<Bytes>, Failure> {
        match self {
            Self::Wire(wire) => wire.exchange(target, request, response_bytes_max, trail, departure).await,
            Self::Script(script) => {
                departure.may_begin()?;
                let scripted = script.play(step, &request);
                if !matches!(scripted, Scripted::Unreachable) {
                    trail.left_whole();
                }
                match scripted {
                    Scripted::Reply(reply) => {
                        trail.answered(reply.status().as_u16());
                        Ok(reply)
                    }
                    Scripted::Silence => Err(Failure::Broken("no reply".to_owned())),
                    Scripted::Unreachable => Err(Failure::Unreachable("no connection".to_owned())),
                }
            }
        }
    }
}
