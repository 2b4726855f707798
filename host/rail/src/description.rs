//! What an adapter says of itself.

/// What an adapter says of itself.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Description {
    pub name: String,
    pub version: String,
    pub currencies: Vec<String>,
    pub settings: Vec<Need>,
    pub variables: Vec<Need>,
    pub facts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Need {
    pub name: String,
    pub required: bool,
    pub purpose: String,
}
