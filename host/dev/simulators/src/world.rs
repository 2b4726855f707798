//! A rail and everything that happened to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ledger::Ledger;
use crate::options::{RecordedRequest, SimulatorOptions};
use crate::rail::RailModel;
use crate::script::Script;
use crate::tokens::IssuedTokens;

/// A rail and everything that happened to it.
#[derive(Debug)]
pub(crate) struct World {
    pub rail: Box<dyn RailModel>,
    pub tokens: IssuedTokens,
    pub(crate) script: Mutex<Arc<Script>>,
    pub(crate) ledger: Mutex<Ledger>,
    /// What is left to pay from, as it says.
    pub(crate) float: Mutex<String>,
    pub(crate) seed: String,
    pub(crate) forgetful: bool,
    /// None: nothing is kept of what was said.
    pub(crate) recorded: Option<Mutex<Vec<RecordedRequest>>>,
}

impl World {
    pub(crate) fn new(rail: Box<dyn RailModel>, options: &SimulatorOptions) -> Result<Self, String> {
        Ok(Self {
            tokens: IssuedTokens::new(options.token_lifetime),
            script: Mutex::new(Arc::new(Script::parse(&options.script, rail.variants())?)),
            ledger: Mutex::default(),
            float: Mutex::new("1000000.00".to_owned()),
            seed: options.seed.clone(),
            forgetful: options.forgetful,
            recorded: options.record.then(Mutex::default),
            rail,
        })
    }

    pub(crate) fn follow(&self, script: &str) -> Result<(), String> {
        let script = Arc::new(Script::parse(script, self.rail.variants())?);
        *self.script.lock().unwrap_or_else(PoisonError::into_inner) = script;
        Ok(())
    }

    pub(crate) fn script(&self) -> Arc<Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_float(&self, left: &str) {
        left.clone_into(&mut self.float.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn float(&self) -> String {
        self.float.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn recorded(&self) -> Vec<RecordedRequest> {
        let recorded = self.recorded.as_ref().map(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner));
        recorded.map(|kept| kept.clone()).unwrap_or_default()
    }
}
