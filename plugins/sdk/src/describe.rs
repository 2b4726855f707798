use crate::{Description, Need};

impl Description {
    /// An adapter that can be asked about payments and needs nothing; add to it with the functions below.
    pub fn new(name: &str, version: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            currencies: Vec::new(),
            can_query: true,
            settings: Vec::new(),
            secrets: Vec::new(),
            keys: Vec::new(),
            tokens: Vec::new(),
        }
    }

    #[must_use]
    pub fn currencies(mut self, codes: &[&str]) -> Self {
        self.currencies = codes.iter().map(|code| (*code).to_owned()).collect();
        self
    }

    /// The rail cannot be asked about a payment.
    #[must_use]
    pub fn without_query(mut self) -> Self {
        self.can_query = false;
        self
    }

    #[must_use]
    pub fn setting(mut self, need: Need) -> Self {
        self.settings.push(need);
        self
    }

    #[must_use]
    pub fn secret(mut self, need: Need) -> Self {
        self.secrets.push(need);
        self
    }

    #[must_use]
    pub fn key(mut self, need: Need) -> Self {
        self.keys.push(need);
        self
    }

    #[must_use]
    pub fn token(mut self, need: Need) -> Self {
        self.tokens.push(need);
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
