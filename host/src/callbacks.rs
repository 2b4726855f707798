//! What rails tell us unasked: `POST` or `PUT /callbacks/RAIL/OUTBOX_ID/PROOF`. A callback decides nothing. Its body is not even
//! read; where its address is one that we gave out, the question that is due later is asked now.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::faults::{self, CrashPoint};
use crate::listen::{self, Page, page};
use crate::observe::Metrics;
use crate::outbox::Database;
use crate::outbox::lease::Executor;
use crate::rail::{Rail, Rails};

/// What becomes of a callback, for those who count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// The payment is asked about now.
    Taken,
    /// There is nothing to ask: it is being called about, has its verdict, or was never sent.
    Idle,
    /// No address that we gave out.
    Forged,
    /// The database could not be told.
    Failed,
}

impl Hint {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Idle => "idle",
            Self::Forged => "forged",
            Self::Failed => "failed",
        }
    }
}

struct Desk {
    rails: BTreeMap<String, Arc<Rail>>,
    executor: Executor,
    metrics: Arc<Metrics>,
}

/// Takes callbacks for as long as it is polled.
pub async fn serve(
    listener: TcpListener,
    database: &Database,
    rails: &Rails,
    metrics: Arc<Metrics>,
) -> Infallible {
    let rails = rails.all().into_iter().map(|rail| (rail.name.clone(), rail)).collect();
    let desk =
        Arc::new(Desk { rails, executor: Executor::new(database, "callbacks".to_owned(), 2), metrics });
    listen::answer(listener, move |request| {
        let desk = desk.clone();
        async move { desk.answer(&request).await }
    })
    .await
}

impl Desk {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Page> {
        let path: Vec<&str> = request.uri().path().split('/').collect();
        let ["", "callbacks", rail, outbox_id, proof] = path[..] else {
            return page(StatusCode::NOT_FOUND, "");
        };
        if !matches!(*request.method(), Method::POST | Method::PUT) {
            return page(StatusCode::METHOD_NOT_ALLOWED, "");
        }
        let hint = self.take(rail, outbox_id, proof).await;
        self.metrics.called_back(rail, hint);
        // A caller who guesses learns nothing but that the address is wrong.
        page(
            match hint {
                Hint::Taken | Hint::Idle => StatusCode::OK,
                Hint::Forged => StatusCode::NOT_FOUND,
                Hint::Failed => StatusCode::SERVICE_UNAVAILABLE,
            },
            "",
        )
    }

    async fn take(&self, rail: &str, outbox_id: &str, proof: &str) -> Hint {
        let (Some(found), Ok(outbox_id)) = (self.rails.get(rail), Uuid::parse_str(outbox_id)) else {
            return Hint::Forged;
        };
        if !found.vouches(outbox_id, proof) {
            return Hint::Forged;
        }
        match faults::sending(CrashPoint::HintSent, self.executor.hint(rail, outbox_id)).await {
            Ok(true) => Hint::Taken,
            Ok(false) => Hint::Idle,
            Err(error) => {
                tracing::warn!(payment = %outbox_id, %error, "a callback was not taken: {error}");
                Hint::Failed
            }
        }
    }
}
