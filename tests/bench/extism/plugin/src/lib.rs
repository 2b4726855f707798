//! What the mock adapter does for a payment that is pending, as an Extism plugin.

use extism_pdk::{FnResult, Json, plugin_fn};
use serde::{Deserialize, Serialize};

/// A name and a text.
type Value = (String, String);

#[derive(Deserialize)]
struct Payment {
    amount: String,
    currency: String,
    destination: Vec<Value>,
}

#[derive(Serialize)]
struct Violation {
    field: String,
    problem: String,
}

#[plugin_fn]
pub fn validate(Json(payment): Json<Payment>) -> FnResult<Json<Vec<Violation>>> {
    let mut found = Vec::new();
    if payment.amount.is_empty() || payment.currency.len() != 3 {
        found.push(Violation { field: "amount".to_owned(), problem: "is not money".to_owned() });
    }
    if payment.destination.is_empty() {
        found.push(Violation { field: "destination".to_owned(), problem: "is missing".to_owned() });
    }
    Ok(Json(found))
}

#[plugin_fn]
pub fn disburse(Json(_): Json<Payment>) -> FnResult<Json<Vec<Value>>> {
    Ok(Json(vec![("status".to_owned(), "pending".to_owned())]))
}
