//! Which rail, and how it behaves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;

use crate::airtel::Padding;
use crate::rail::Name;

/// Which rail, and how it behaves.
#[derive(Debug, Clone)]
pub struct SimulatorOptions {
    pub rail: Name,
    pub listen: SocketAddr,
    /// Rules, one a line; `script` tells the language. Without any every payment is paid at once.
    pub script: String,
    /// Decides what `either` picks.
    pub seed: String,
    pub token_lifetime: Duration,
    /// It takes a key that it has seen for a new one, and pays again.
    pub forgetful: bool,
    /// Of the PIN and of message signatures; Airtel only.
    pub padding: Padding,
    /// Airtel takes what is not signed, too. In Zambia it does not.
    pub unsigned: bool,
    /// Every exchange is kept as it was on the wire, for tests that look at the messages themselves.
    pub record: bool,
    pub tls: Option<Arc<ServerConfig>>,
}

impl SimulatorOptions {
    /// On a free port of loopback.
    pub fn new(rail: Name) -> Self {
        Self {
            rail,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            script: String::new(),
            seed: String::new(),
            token_lifetime: Duration::from_secs(rail.token_seconds()),
            forgetful: false,
            padding: Padding::Pkcs1,
            unsigned: false,
            record: false,
            tls: None,
        }
    }

    #[must_use]
    pub fn script(self, script: &str) -> Self {
        Self { script: script.to_owned(), ..self }
    }
}

/// A request and its reply, as texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRequest {
    pub request: String,
    /// None: it was not sent, or not all of it.
    pub reply: Option<String>,
}
