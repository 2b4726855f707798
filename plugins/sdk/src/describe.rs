use crate::prelude::*;
use crate::{Description, Need};

impl Description {
    /// An adapter that needs nothing; add to it with the functions below.
    pub fn new(name: &str, version: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            currencies: Vec::new(),
            settings: Vec::new(),
            variables: Vec::new(),
            facts: Vec::new(),
        }
    }

    #[must_use]
    pub fn currencies(mut self, codes: &[&str]) -> Self {
        self.currencies = codes.iter().map(|code| (*code).to_owned()).collect();
        self
    }

    #[must_use]
    pub fn setting(mut self, need: Need) -> Self {
        self.settings.push(need);
        self
    }

    #[must_use]
    pub fn variable(mut self, need: Need) -> Self {
        self.variables.push(need);
        self
    }

    /// The facts that it reads in replies.
    #[must_use]
    pub fn facts(mut self, names: &[&str]) -> Self {
        self.facts = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }
}

impl Need {
    pub fn required(name: &str, purpose: &str) -> Self {
        Self { name: name.to_owned(), required: true, purpose: purpose.to_owned() }
    }

    pub fn optional(name: &str, purpose: &str) -> Self {
        Self { name: name.to_owned(), required: false, purpose: purpose.to_owned() }
    }
}
