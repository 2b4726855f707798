//! Rails to try adapters against: HTTP servers on loopback that speak as MTN, Airtel and a bank do, fail as they do, and keep
//! a ledger of what they paid, which is the judge in every test.
//!
//! - [`script`]: what happens to which payment, fixed when it arrives · [`ledger`]: what arrived and what was paid
//! - [`fault`]: replies that go wrong · [`tokens`]: sessions · [`server`]: connections
//! - [`parse`]: what arrives · [`audit`]: the ledger against somebody's books · [`control`]: the pages under `/_sim/` · [`mtn`], [`airtel`], [`bank`]: the rails' own words
//!
//! ```
//! use std::collections::HashMap;
//! use rail_simulators::{Audit, Booked, Entry, Name};
//!
//! assert_eq!("airtel".parse::<Name>()?.port(), 7102);
//! let ledger: [Entry; 0] = []; // nothing arrived at the rail
//! let books = HashMap::from([("key".to_owned(), Booked::of(Some("DISPATCHED"), Some("yes")))]);
//! let audit = Audit::of(&ledger, &books);
//! assert!(!audit.agrees() && audit.disagreed == 1, "the books say paid and the ledger does not");
//! # Ok::<(), String>(())
//! ```

mod airtel;
mod audit;
mod bank;
mod callback;
mod control;
mod fault;
mod ledger;
mod line;
mod mtn;
mod options;
mod order;
mod parse;
mod rail;
mod script;
mod server;
mod tokens;
mod world;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use airtel::Padding;
pub use audit::{Audit, Booked};
pub use ledger::{Entry, RequestCounts};
pub use options::{RecordedRequest, SimulatorOptions};
pub use order::ReceivedPayment;
pub use rail::{Ask, Name, RailModel, RailRequest, SimulatedReply};
pub use script::Says;
pub use tokens::IssuedTokens;

use world::World;

/// A rail that answers until it is dropped.
#[derive(Debug)]
pub struct Simulator {
    pub address: SocketAddr,
    world: Arc<World>,
    secure: bool,
    server: JoinHandle<()>,
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Simulator {
    pub async fn start(options: SimulatorOptions) -> io::Result<Self> {
        let rail: Box<dyn RailModel> = match options.rail {
            Name::Mtn => Box::new(mtn::Mtn),
            Name::Airtel => Box::new(airtel::Airtel::new(options.padding, !options.unsigned)?),
            Name::Bank => Box::new(bank::Bank),
        };
        Self::play(rail, options).await
    }

    /// Plays a rail of somebody's own; what the options say of which rail it is does not count.
    pub async fn play(rail: Box<dyn RailModel>, options: SimulatorOptions) -> io::Result<Self> {
        let world =
            World::new(rail, &options).map_err(|problem| io::Error::other(format!("script: {problem}")))?;
        let listener = TcpListener::bind(options.listen).await?;
        let (address, secure) = (listener.local_addr()?, options.tls.is_some());
        let world = Arc::new(world);
        let server = tokio::spawn(server::serve(listener, world.clone(), options.tls));
        Ok(Self { address, world, secure, server })
    }

    /// Scheme, address and port.
    pub fn base(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.address)
    }

    /// Other rules, for payments that arrive from now on.
    pub fn follow(&self, script: &str) -> Result<(), String> {
        self.world.follow(script)
    }

    /// Every token that was given out is worth nothing from now on.
    pub fn expire_tokens(&self) {
        self.world.tokens.expire();
    }

    /// What is left to pay from, as it says from now on.
    pub fn set_float(&self, left: &str) {
        self.world.set_float(left);
    }

    /// Every token that it ever gave out.
    pub fn tokens(&self) -> Vec<String> {
        self.world.tokens.issued()
    }

    pub fn counts(&self) -> RequestCounts {
        self.world.ledger().counts()
    }

    /// What it knows of a key.
    pub fn entry(&self, key: &str) -> Option<Entry> {
        self.world.ledger().entry(key)
    }

    /// All that it knows.
    pub fn entries(&self) -> Vec<Entry> {
        self.world.ledger().entries()
    }

    /// What was said so far, where [`SimulatorOptions::record`] asks for it.
    pub fn recorded(&self) -> Vec<RecordedRequest> {
        self.world.recorded()
    }
}
