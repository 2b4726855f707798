//! What leaves, read by others: payments whose every field a hostile participant chose, and values that a hostile adapter gave,
//! through every shipped file and some that are made up, to readers of other makers. What arrives is the approved form with the
//! key, the amount, the currency and every part of the payee as instructed, or nothing leaves.
//!
//! `RAILHOST_FUZZ_CASES` is the number of payments, 20,000 where it is left out; `RAILHOST_FUZZ_SEED` the seed.

mod case;
mod oracle;
mod rail;
mod readers;

use std::collections::BTreeMap;
use std::env;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fastrand::Rng;
use form::{FilledRequest, Input, Operation, Shown};
use payment::Instruction;
use serde_json::{Value, json};

use crate::case::{Case, Dice};
use crate::oracle::{Places, agrees, approved};
use crate::rail::{MADE_UP, Rail, SHIPPED, made_up};
use crate::readers::{Reader, readers};

/// A request that left, and what it was made of.
struct Sent<'s> {
    rail: &'s Rail,
    case: &'s Case,
    payment: &'s Instruction,
    request: &'s FilledRequest,
}

impl Sent<'_> {
    /// Every reader finds what was approved.
    fn check(&self, readers: &mut [Reader; 2]) {
        let step = self.step();
        let kind =
            ["json", "xml", "form"].into_iter().find(|kind| step.get(kind).is_some()).unwrap_or("none");
        let body = STANDARD.encode(&self.request.body);
        let told = json!({ "kind": kind, "body": body, "path": self.request.path });
        let [python, node] = readers;
        let (python, node) = (python.read(&told), node.read(&told));
        self.check_body(&python, &node);
        let line = step["request"].as_str().expect("a request").split_once("{base}").expect("a base").1;
        let (path, query) = line.split_once('?').unwrap_or((line, ""));
        self.check_path(path, &python["path"]);
        self.check_query(query, &python["query"]);
        self.check_headers();
    }

    fn step(&self) -> &toml::Value {
        &self.rail.table["steps"][&self.request.step]
    }

    fn approved(&self) -> Places {
        approved(self.rail, self.step(), self.case, self.payment)
    }

    fn shown(&self) -> String {
        let FilledRequest { path, body, .. } = self.request;
        let body = String::from_utf8_lossy(body);
        format!("{}: {path} {body}\n{:?}", self.rail.name, self.approved())
    }

    fn filled(&self, text: &str) -> Result<Option<String>, ()> {
        self.case.filled(text, self.payment, self.rail)
    }

    fn check_body(&self, python: &Value, node: &Value) {
        let approved = self.approved();
        assert!(
            python.get("error").is_none() && node.get("error").is_none(),
            "{python} {node} {}",
            self.shown()
        );
        for reader in ["json", "expat", "libxml2", "form"] {
            if let Some(found) = python.get(reader) {
                assert!(agrees(found, &approved), "{reader} reads {found} in {}", self.shown());
            }
        }
        if let Some(found) = python.get("folding") {
            let mut folded: Places =
                approved.iter().map(|(place, text)| (place.to_lowercase(), text.clone())).collect();
            folded.sort();
            assert!(agrees(found, &folded), "a folding reader reads {found} in {}", self.shown());
        }
        if let Some(found) = node.get("node") {
            assert!(agrees(found, &approved), "node reads {found} in {}", self.shown());
        }
    }

    fn check_path(&self, path: &str, found: &Value) {
        let base = self.rail.table["base"].as_str().expect("a base");
        let prefix =
            base.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
        let path = if prefix.is_empty() { path.to_owned() } else { format!("/{prefix}{path}") };
        let segments = path.split('/').enumerate();
        let mut wanted: Places =
            segments.map(|(at, part)| (at.to_string(), self.filled(part).expect("known"))).collect();
        wanted.sort();
        assert!(agrees(found, &wanted), "the path of {}", self.shown());
    }

    fn check_query(&self, query: &str, found: &Value) {
        let mut wanted: Places = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .filter_map(|pair| {
                let (name, text) = pair.split_once('=').expect("a pair");
                Some((name.to_owned(), Some(self.filled(text).expect("known")?)))
            })
            .collect();
        wanted.sort();
        assert!(agrees(found, &wanted), "the query of {}", self.shown());
    }

    fn check_headers(&self) {
        let headers = &self.request.headers;
        for (name, text) in self.step().get("headers").and_then(toml::Value::as_table).into_iter().flatten() {
            let sent = headers.iter().filter(|(sent, _)| sent == name).map(|(_, value)| value.clone());
            match self.filled(text.as_str().expect("a text")) {
                Ok(wanted) => {
                    assert_eq!(sent.collect::<Vec<_>>(), wanted.into_iter().collect::<Vec<_>>(), "{name}")
                }
                Err(()) => assert!(sent.count() <= 1),
            }
        }
        let plain = |text: &str| text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        let is_plain = headers.iter().all(|(name, value)| plain(name) && plain(value));
        assert!(is_plain, "headers of {}", self.shown());
    }
}

/// The requests of a payment, or none where the form refuses it.
fn written(rail: &Rail, case: &Case) -> Option<(Instruction, Vec<FilledRequest>)> {
    let payment = case.payment()?;
    if !rail.form.check(&payment).is_empty() {
        return None;
    }
    let values: Vec<(String, String)> =
        rail.form.variables().filter_map(|(name, ..)| Some((name.to_owned(), case.free.clone()?))).collect();
    let input = Input {
        payment: &payment,
        values: &values,
        captured: &BTreeMap::new(),
        secrets: &Shown,
        challenge: None,
        now: "2026-01-15T09:30:00Z".parse().expect("a time"),
    };
    let way = rail.form.way(&payment).expect("it was checked");
    let asked = rail.form.steps_of(Operation::QueryStatus);
    let written = way.into_iter().chain(asked).filter_map(|step| rail.form.fill(step, &input).ok()).collect();
    Some((payment, written))
}

#[test]
fn ad_01_what_leaves_is_the_approved_form_as_instructed_or_nothing() {
    let cases: usize = env::var("RAILHOST_FUZZ_CASES").map_or(20_000, |text| text.parse().expect("a number"));
    let seed: u64 = env::var("RAILHOST_FUZZ_SEED").map_or(7, |text| text.parse().expect("a number"));
    let mut dice = Dice(Rng::with_seed(seed));
    let rails: Vec<Rail> = SHIPPED.map(Rail::shipped).into_iter().chain(MADE_UP.map(made_up)).collect();
    let mut readers = readers();
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for n in 0..cases {
        let rail = &rails[n % rails.len()];
        let case = Case::draw(&mut dice, rail);
        let (left, refused) = counts.entry(rail.name).or_default();
        match written(rail, &case) {
            Some((payment, requests)) if !requests.is_empty() => {
                *left += 1;
                for request in &requests {
                    Sent { rail, case: &case, payment: &payment, request }.check(&mut readers);
                }
            }
            _ => *refused += 1,
        }
    }
    println!("seed {seed}: left and refused, by rail: {counts:?}");
    for (rail, (left, refused)) in counts {
        assert!(
            left > cases / 200 && refused > cases / 200,
            "{rail}: the dice are too gentle or too rough: {left}, {refused}"
        );
    }
}
