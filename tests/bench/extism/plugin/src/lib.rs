//! What the mock adapter does for a payment that settles, as an Extism plugin.

use extism_pdk::{FnResult, Json, plugin_fn};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Instruction {
    key: String,
    amount: String,
    currency: String,
    destination: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Violation {
    field: String,
    problem: String,
}

#[derive(Serialize)]
struct Settled {
    reference: String,
    code: Option<String>,
}

#[plugin_fn]
pub fn validate(Json(instruction): Json<Instruction>) -> FnResult<Json<Vec<Violation>>> {
    let mut found = Vec::new();
    if instruction.amount.is_empty() || instruction.currency.len() != 3 {
        found.push(Violation { field: "amount".to_owned(), problem: "is not money".to_owned() });
    }
    if instruction.destination.is_empty() {
        found.push(Violation { field: "destination".to_owned(), problem: "is missing".to_owned() });
    }
    Ok(Json(found))
}

#[plugin_fn]
pub fn disburse(Json(instruction): Json<Instruction>) -> FnResult<Json<Settled>> {
    Ok(Json(Settled { reference: format!("mock-{}", &instruction.key[..16]), code: None }))
}
