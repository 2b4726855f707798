use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response};

use super::case::{Case, CaseReply};
use payment::plain;
use rail::{RailStub, Scripted};

/// A rail made of recorded replies, which remembers what it was asked.
#[derive(Debug, Default)]
pub(super) struct ReplayedExchanges(Mutex<Playing>);

#[derive(Debug, Default)]
struct Playing {
    before: BTreeMap<String, CaseReply>,
    reply: Option<CaseReply>,
    asked: Vec<String>,
}

impl ReplayedExchanges {
    pub(super) fn begin(&self, case: &Case) {
        let (before, reply) = (case.before.clone(), case.reply.clone());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Playing { before, reply, asked: Vec::new() };
    }

    /// The requests since the beginning, as people read them.
    pub(super) fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).asked.clone()
    }
}

fn shown(step: &str, request: &Request<Bytes>) -> String {
    let headers: Vec<_> = request.headers().keys().map(|name| name.as_str()).collect();
    let body = String::from_utf8_lossy(request.body());
    let line = format!("{step}: {} {} ({}) {body}", request.method(), request.uri(), headers.join(", "));
    // It holds the adapter's words, and is shown on a terminal.
    plain(&line).into_owned()
}

impl RailStub for ReplayedExchanges {
    fn play(&self, step: &str, request: &Request<Bytes>) -> Scripted {
        let mut playing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        playing.asked.push(shown(step, request));
        // Nothing was recorded for it: the rail is silent.
        let recorded = playing.before.get(step).or(playing.reply.as_ref()).cloned();
        let Some(recorded) = recorded else { return Scripted::Silence };
        let mut builder = Response::builder().status(recorded.status);
        for (name, value) in &recorded.headers {
            builder = builder.header(name, value);
        }
        builder.body(Bytes::from(recorded.bytes())).map_or(Scripted::Silence, Scripted::Reply)
    }
}
