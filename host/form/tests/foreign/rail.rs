//! A rail file, and what the test knows of it by itself: the shipped ones, and some that are made up.

use std::fs;
use std::path::Path;

use form::{Form, FormFile};
use serde::de::DeserializeOwned;
use toml::Table;

/// A rail file, and what the test knows of it by itself.
pub(crate) struct Rail {
    pub(crate) name: &'static str,
    pub(crate) table: Table,
    pub(crate) form: Form,
}

impl Rail {
    fn of(name: &'static str, text: &str) -> Self {
        let table: Table = toml::from_str(text).expect("TOML");
        let names = |section: &str| match table.get(section) {
            Some(toml::Value::Table(entries)) => entries.keys().cloned().collect(),
            _ => Vec::new(),
        };
        let tokens = names("tokens").into_iter().map(|name| {
            let step = table["tokens"][&name]["step"].as_str().expect("a step").to_owned();
            (name, step)
        });
        let fetched = names("keys").into_iter().filter_map(|name| {
            let step = table["keys"][&name].get("fetch")?["step"].as_str()?.to_owned();
            Some((name, step))
        });
        let fetched = fetched.collect();
        let form = Form::load(&FormFile {
            is_mock: false,
            base: section(&table, "base"),
            utc_offset: section(&table, "utc_offset"),
            currencies: section(&table, "currencies"),
            amount: section(&table, "amount"),
            destination: section(&table, "destination"),
            narrative: section(&table, "narrative"),
            payload: section(&table, "payload"),
            settings: section(&table, "settings"),
            variables: section(&table, "variables"),
            tables: section(&table, "tables"),
            computed: section(&table, "computed"),
            steps: section(&table, "steps"),
            disburse: section(&table, "disburse"),
            query_status: section(&table, "query-status"),
            codes: section(&table, "codes"),
            secrets: names("secrets"),
            keys: names("keys"),
            tokens: tokens.collect(),
            fetched,
            hours: section(&table, "hours"),
            float: section(&table, "float"),
            callback: section(&table, "callback"),
        });
        Self { name, form: form.unwrap_or_else(|why| panic!("{name}: {why}")), table }
    }

    /// By its path from the project's root.
    pub(crate) fn shipped(name: &'static str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
        Self::of(name, &fs::read_to_string(path).expect("a rail file"))
    }
}

fn section<T: DeserializeOwned + Default>(table: &Table, name: &str) -> T {
    table.get(name).map_or_else(T::default, |value| value.clone().try_into().expect("a section"))
}

pub(crate) const SHIPPED: [&str; 6] = [
    "config/rails/mtn.toml",
    "config/rails/airtel.toml",
    "config/rails/bank.toml",
    "plugins/mtn/lookup.toml",
    "plugins/airtel/v3.toml",
    "plugins/bank/eft.toml",
];

/// Rails that nobody has: every body, places that parsers stumble over, each kind of slot.
pub(crate) const MADE_UP: [(&str, &str); 4] = [
    (
        "odd names",
        r#"
        request = "POST {base}/p/{key:alnum20}?ref={key:uuid}&to={destination.account}"
        json = '{ "a.b": { "$t": "x{currency}y" }, "é": ["{amount:decimal}", { "0": "{destination.account}" }], "n ": "{narrative?}", "v/w~x": "{adapter.free?}", "name": "{destination.name?}", "__proto__x": 1.50 }'
        "#,
    ),
    (
        "a number",
        r#"
        request = "POST {base}/p"
        json = '{ "id": "{key:digits20}", "amount": "{amount:minor:number}", "to": { "acc": "{destination.account}", "who": "{destination.name?}" }, "text": "{narrative?}", "free": "{adapter.free?}" }'
        "#,
    ),
    (
        "attributes",
        r#"
        request = "POST {base}/p"
        xml = '<r:Pay xmlns:r="urn:r" key="{key:hex}" amt="{amount:decimal}"><r:To acc="{destination.account}"><r:Fixed>1</r:Fixed></r:To><r:Who>{destination.name?}</r:Who><Free xmlns="urn:other">{adapter.free?}</Free><r:Note>{narrative?}</r:Note></r:Pay>'
        "#,
    ),
    (
        "a form",
        r#"
        request = "POST {base}/p"
        form = { key = "{key:letters14}", "amount[value]" = "{amount:decimal}", to = "{destination.account}", who = "{destination.name?}", note = "{narrative?}", free = "{adapter.free?}" }
        "#,
    ),
];

pub(crate) fn made_up((name, step): (&'static str, &str)) -> Rail {
    Rail::of(
        name,
        &format!(
            r#"
            base = "https://rail.example/v1"
            currencies = ["ZMW"]
            [amount]
            minor = {{ ZMW = 100 }}
            [destination]
            plain = "account"
            [destination.parts]
            account = {{ chars = "ascii", also = "", max = 60 }}
            name = {{ chars = "text", max = 200, optional = true }}
            [narrative]
            chars = "text"
            max = 300
            [variables]
            free = {{ purpose = "anything", field = {{ chars = "text", max = 100, optional = true }} }}
            [disburse]
            steps = ["pay"]
            [steps.pay]
            class = "money"
            {step}
            [codes]
            version = 1
            rows = []
            "#
        ),
    )
}
