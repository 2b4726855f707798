use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response};

use super::case::Reply;
use crate::payment::plain;
use crate::rail::{Script, Scripted};

/// How the rail is played in one call.
#[derive(Debug, Clone, Default)]
pub(super) struct Play {
    pub replies: VecDeque<Reply>,
    /// What happens at an endpoint instead of its reply.
    pub fault: Option<(String, Fault)>,
}

#[derive(Debug, Clone)]
pub(super) enum Fault {
    Silence,
    Unreachable,
    Says(u16, String),
}

impl Play {
    pub(super) fn as_recorded(replies: &[Reply]) -> Self {
        Self { replies: replies.iter().cloned().collect(), fault: None }
    }

    pub(super) fn with(replies: &[Reply], endpoint: &str, fault: Fault) -> Self {
        Self { fault: Some((endpoint.to_owned(), fault)), ..Self::as_recorded(replies) }
    }
}

/// A rail made of recorded replies, which remembers what it was asked.
#[derive(Debug, Default)]
pub(super) struct Replay(Mutex<Playing>);

#[derive(Debug, Default)]
struct Playing {
    play: Play,
    asked: Vec<(String, Request<Bytes>)>,
}

impl Replay {
    pub(super) fn begin(&self, play: Play) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Playing { play, asked: Vec::new() };
    }

    /// The endpoints that were asked since the beginning, with the requests as people read them.
    pub(super) fn asked(&self) -> Vec<(String, String)> {
        let playing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        playing.asked.iter().map(|(endpoint, request)| (endpoint.clone(), shown(request))).collect()
    }
}

fn shown(request: &Request<Bytes>) -> String {
    let headers: Vec<_> = request.headers().keys().map(|name| name.as_str()).collect();
    let body = String::from_utf8_lossy(request.body());
    // The adapter's words, shown on a terminal.
    plain(&format!("{} {} ({}) {body}", request.method(), request.uri(), headers.join(", "))).into_owned()
}

impl Script for Replay {
    fn play(&self, endpoint: &str, request: &Request<Bytes>) -> Scripted {
        let mut playing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        playing.asked.push((endpoint.to_owned(), request.clone()));
        match &playing.play.fault {
            Some((at, Fault::Silence)) if at == endpoint => return Scripted::Silence,
            Some((at, Fault::Unreachable)) if at == endpoint => return Scripted::Unreachable,
            Some((at, Fault::Says(status, body))) if at == endpoint => {
                return reply(*status, &[], body.clone());
            }
            _ => {}
        }
        let next = playing.play.replies.iter().position(|reply| reply.endpoint == endpoint);
        match next.and_then(|at| playing.play.replies.remove(at)) {
            Some(recorded) => {
                let headers: Vec<_> =
                    recorded.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                reply(recorded.status, &headers, recorded.text())
            }
            // Nothing was recorded for it: the rail is silent.
            None => Scripted::Silence,
        }
    }
}

fn reply(status: u16, headers: &[(&str, &str)], body: String) -> Scripted {
    let mut builder = Response::builder().status(status);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Bytes::from(body)).map_or(Scripted::Silence, Scripted::Reply)
}
