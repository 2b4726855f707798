//! What leaves, read by others: payments whose every field a hostile participant chose, and values that a hostile adapter gave, through
//! every shipped file and some that are made up, to readers of other makers. What arrives is the approved form with the key, the
//! amount, the currency and every part of the payee as instructed, or nothing leaves.
//!
//! `RAILHOST_FUZZ_CASES` is the number of payments, 20,000 where it is left out; `RAILHOST_FUZZ_SEED` the seed.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fastrand::Rng;
use form::{Form, FormFile, Input, Operation, Request, Shown};
use payment::{Instruction, KeyForm, Origin};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toml::Table;
use uuid::Uuid;

/// A rail's file, and what the test knows of it by itself.
struct Rail {
    name: &'static str,
    table: Table,
    form: Form,
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
    fn shipped(name: &'static str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
        Self::of(name, &fs::read_to_string(path).expect("a rail's file"))
    }
}

fn section<T: DeserializeOwned + Default>(table: &Table, name: &str) -> T {
    table.get(name).map_or_else(T::default, |value| value.clone().try_into().expect("a section"))
}

const SHIPPED: [&str; 6] = [
    "config/rails/mtn.toml",
    "config/rails/airtel.toml",
    "config/rails/bank.toml",
    "plugins/mtn/lookup.toml",
    "plugins/airtel/v3.toml",
    "plugins/bank/eft.toml",
];

/// Rails that nobody has: every body, places that parsers stumble over, each kind of slot.
const MADE_UP: [(&str, &str); 4] = [
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

fn made_up((name, step): (&'static str, &str)) -> Rail {
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

/// What others choke on, or read as something else.
const NASTY: [&str; 40] = [
    "",
    " ",
    "260961234567",
    "+260961234567",
    "0961234567",
    "٢٦٠٩٦١٢٣٤٥٦٧",
    "a\u{202e}b",
    "\u{200f}",
    "\u{feff}x",
    "x\u{0}y",
    "\"",
    "\\\"",
    "\\u0022",
    "',\"amount\":\"1",
    "</InstdAmt><InstdAmt Ccy=\"ZMW\">1",
    "<!-- x -->",
    "<![CDATA[1]]>",
    "]]>",
    "&amp;",
    "&#49;",
    "%",
    "%31",
    "%2F..%2F",
    "../..",
    "a/b",
    "?amount=1",
    "&amount=1",
    ";amount=1",
    "=",
    "a+b",
    "#",
    "\r\nx-amount: 1",
    "\n",
    "\t",
    "{amount:decimal}",
    "{{",
    "${1}",
    "é",
    "\u{1f4b8}",
    "\u{fffe}",
];

struct Dice(Rng);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0.usize(..count)
    }

    fn nasty(&mut self) -> String {
        match self.below(12) {
            0 => "x".repeat(10_000),
            1 => char::from_u32(self.below(0x11_0000) as u32).map(String::from).unwrap_or_default(),
            many => (0..=many % 4).map(|_| NASTY[self.below(NASTY.len())]).collect(),
        }
    }

    /// Mostly what fits, so that one odd field at a time is looked at, and often several.
    fn text(&mut self, sound: &str) -> String {
        match self.below(4) {
            0 => self.nasty(),
            1 => format!("{sound}{}", self.nasty()),
            _ => sound.to_owned(),
        }
    }
}

/// What a participant and an adapter chose, and what the payment is.
struct Case {
    amount: String,
    destination: BTreeMap<String, String>,
    narrative: Option<String>,
    free: Option<String>,
    id: Uuid,
}

impl Case {
    fn draw(dice: &mut Dice, rail: &Rail) -> Self {
        let minor = 1 + dice.below(99_999_999);
        let parts = rail.table["destination"]["parts"].as_table().expect("parts");
        let mut destination = BTreeMap::new();
        for (name, field) in parts {
            let sound = match (name.as_str(), field.get("kind").and_then(toml::Value::as_str)) {
                (_, Some("msisdn")) => "260961234567",
                (_, Some("bic")) => "AAAAZMLX",
                ("bank_code", _) => "210003",
                ("country", _) => "ZM",
                _ => "A1b2",
            };
            let is_optional = field.get("optional").and_then(toml::Value::as_bool) == Some(true);
            let skipped =
                is_optional && name != "bic" && dice.below(4) > 0 || name == "name" && dice.below(8) == 0;
            if !skipped {
                destination.insert(name.clone(), dice.text(sound));
            }
        }
        if dice.below(50) == 0 {
            destination.insert("unheard_of".to_owned(), dice.nasty());
        }
        Self {
            amount: format!("{}.{:02}", minor / 100, minor % 100),
            destination,
            narrative: (dice.below(3) > 0).then(|| dice.text("Wages of May")),
            free: (dice.below(3) > 0).then(|| dice.text("free")),
            id: Uuid::from_u128(dice.0.u128(..)),
        }
    }

    fn payment(&self) -> Option<Instruction> {
        let mut payload =
            json!({ "amount": self.amount, "currency": "ZMW", "destination": self.destination });
        if let Some(narrative) = &self.narrative {
            payload["narrative"] = narrative.clone().into();
        }
        let origin = Origin {
            outbox_id: self.id,
            instruction_id: "i".to_owned(),
            participant_id: "p".to_owned(),
            sequence_id: 1,
        };
        Instruction::read(origin, &payload.to_string(), 1).ok()
    }

    /// What must stand in the place of a slot; the error is a value that only the host knows, or a time.
    fn value(&self, slot: &str, payment: &Instruction, rail: &Rail) -> Result<Option<String>, ()> {
        let slot = slot.trim_end_matches('?');
        let (name, form) = slot.split_once(':').unwrap_or((slot, ""));
        Ok(match name {
            "key" => Some(payment.key.form(KeyForm::parse(form).expect("a form"))),
            "amount" if form.starts_with("minor") => {
                Some(self.amount.replace('.', "").trim_start_matches('0').to_owned())
            }
            "amount" => Some(self.amount.clone()),
            "currency" => Some("ZMW".to_owned()),
            "narrative" => self.narrative.clone().filter(|text| !text.trim().is_empty()),
            "date" | "time" | "accepted" => return Err(()),
            "callback" => None,
            _ => match name.split_once('.').expect("a kind and a name") {
                ("destination", part) => {
                    let text = self.destination.get(part).cloned();
                    let digits = |text: String| match rail.table["destination"]["parts"][part].get("kind") {
                        Some(kind) if kind.as_str() == Some("msisdn") => {
                            let digits = text.trim_start_matches('+').to_owned();
                            if form == "national" { digits[3..].to_owned() } else { digits }
                        }
                        _ => text,
                    };
                    text.map(digits)
                }
                ("setting", name) => {
                    rail.table["settings"].get(name).map(|text| text.as_str().expect("a text").to_owned())
                }
                ("adapter", _) => self.free.clone(),
                // No payment here has any.
                ("payload", _) => None,
                _ => return Err(()),
            },
        })
    }

    /// A text of the file with its slots filled in. None: it is left out; the error: nobody here can know.
    fn filled(&self, text: &str, payment: &Instruction, rail: &Rail) -> Result<Option<String>, ()> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (slot, after) = after.split_once('}').expect("a slot");
            filled.push_str(before);
            match self.value(slot, payment, rail)? {
                Some(value) => filled.push_str(&value),
                None => return Ok(None),
            }
            rest = after;
        }
        filled.push_str(rest);
        Ok(Some(filled))
    }
}

/// Place and text, as the readers tell them. No text: nobody here can know it.
type Places = Vec<(String, Option<String>)>;

/// What the approved body says with this payment in it.
fn approved(rail: &Rail, step: &toml::Value, case: &Case, payment: &Instruction) -> Places {
    let mut places = Vec::new();
    let mut put = |place: String, text: &str| match case.filled(text, payment, rail) {
        Ok(Some(filled)) => places.push((place, Some(filled))),
        Ok(None) => {}
        Err(()) => places.push((place, None)),
    };
    if let Some(text) = step.get("json") {
        let tree: Value = serde_json::from_str(text.as_str().expect("a text")).expect("JSON");
        json_places(&tree, String::new(), &mut put);
    } else if let Some(text) = step.get("xml") {
        let document = roxmltree::Document::parse(text.as_str().expect("a text").trim()).expect("XML");
        xml_places(document.root_element(), "", &mut put);
    } else if let Some(pairs) = step.get("form") {
        for (name, text) in pairs.as_table().expect("a table") {
            put(format!("/{name}"), text.as_str().expect("a text"));
        }
    }
    places.sort();
    places
}

fn json_places(tree: &Value, place: String, put: &mut impl FnMut(String, &str)) {
    match tree {
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| json_places(member, format!("{place}/{name}"), put))
        }
        Value::Array(entries) => {
            entries
                .iter()
                .enumerate()
                .for_each(|(at, entry)| json_places(entry, format!("{place}/{at}"), put));
        }
        Value::String(text) => put(place, text),
        other => put(place, &other.to_string()),
    }
}

fn xml_places(node: roxmltree::Node<'_, '_>, around: &str, put: &mut impl FnMut(String, &str)) {
    let place = format!("{around}/{}", node.tag_name().name());
    for attribute in node.attributes() {
        put(format!("{place}/@{}", attribute.name()), attribute.value());
    }
    let mut children = node.children().filter(roxmltree::Node::is_element).peekable();
    if children.peek().is_none() {
        put(place.clone(), node.text().unwrap_or_default().trim());
    }
    children.for_each(|child| xml_places(child, &place, put));
}

struct Reader {
    process: Child,
    answers: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Reader {
    fn start(command: &mut Command) -> Self {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = spawned.unwrap_or_else(|error| not_run(&format!("{command:?}: {error}")));
        let answers = BufReader::new(process.stdout.take().expect("its output")).lines();
        Self { process, answers }
    }

    fn read(&mut self, request: &Value) -> Value {
        let line = format!("{request}\n");
        let sent = self.process.stdin.as_mut().expect("its input").write_all(line.as_bytes());
        match (sent, self.answers.next()) {
            (Ok(()), Some(Ok(answer))) => serde_json::from_str(&answer).expect("an answer"),
            _ => not_run("a reader ended: libxml2 cannot be had, or it failed"),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn not_run(why: &str) -> ! {
    println!("NOT RUN: foreign readers: {why}");
    panic!("NOT RUN: foreign readers: {why}");
}

fn readers() -> [Reader; 2] {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign");
    let tools: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/foreign");
    let python = Reader::start(
        Command::new("python3").arg(folder.join("readers.py")).arg(tools).env("PYTHONDONTWRITEBYTECODE", "1"),
    );
    [python, Reader::start(Command::new("node").arg(folder.join("readers.mjs")))]
}

/// Whether what a reader found is what was approved.
fn agrees(found: &Value, approved: &Places) -> bool {
    let Some(found) = found.as_array() else { return false };
    let mut found: Vec<(String, Value)> =
        found.iter().map(|pair| (pair[0].as_str().unwrap_or_default().to_owned(), pair[1].clone())).collect();
    found.sort_by(|left, right| left.0.cmp(&right.0));
    found.len() == approved.len()
        && found.iter().zip(approved).all(|((place, text), (wanted_place, wanted))| {
            let same = |wanted: &String| match text {
                Value::String(text) => text == wanted,
                Value::Number(number) => number.as_f64() == wanted.parse().ok(),
                _ => false,
            };
            place == wanted_place && wanted.as_ref().is_none_or(same)
        })
}

fn look(rail: &Rail, case: &Case, payment: &Instruction, request: &Request, readers: &mut [Reader; 2]) {
    let step = &rail.table["steps"][&request.step];
    let kind = ["json", "xml", "form"].into_iter().find(|kind| step.get(kind).is_some()).unwrap_or("none");
    let told = json!({ "kind": kind, "body": STANDARD.encode(&request.body), "path": request.path });
    let approved = approved(rail, step, case, payment);
    let shown = || {
        format!("{}: {} {}\n{approved:?}", rail.name, request.path, String::from_utf8_lossy(&request.body))
    };
    let [python, node] = readers;
    let (python, node) = (python.read(&told), node.read(&told));
    assert!(python.get("error").is_none() && node.get("error").is_none(), "{python} {node} {}", shown());
    for reader in ["json", "expat", "libxml2", "form"] {
        if let Some(found) = python.get(reader) {
            assert!(agrees(found, &approved), "{reader} reads {found} in {}", shown());
        }
    }
    if let Some(found) = python.get("folding") {
        let mut folded: Places =
            approved.iter().map(|(place, text)| (place.to_lowercase(), text.clone())).collect();
        folded.sort();
        assert!(agrees(found, &folded), "a folding reader reads {found} in {}", shown());
    }
    if let Some(found) = node.get("node") {
        assert!(agrees(found, &approved), "node reads {found} in {}", shown());
    }
    let line = step["request"].as_str().expect("a request").split_once("{base}").expect("a base").1;
    let base = rail.table["base"].as_str().expect("a base");
    let prefix =
        base.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
    let (path, query) = line.split_once('?').unwrap_or((line, ""));
    let path = if prefix.is_empty() { path.to_owned() } else { format!("/{prefix}{path}") };
    let segments = path.split('/').enumerate();
    let wanted: Places = segments
        .map(|(at, part)| (at.to_string(), case.filled(part, payment, rail).expect("known")))
        .collect();
    assert!(
        agrees(&python["path"], &{
            let mut sorted = wanted;
            sorted.sort();
            sorted
        }),
        "the path of {}",
        shown()
    );
    let mut wanted: Places = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .filter_map(|pair| {
            let (name, text) = pair.split_once('=').expect("a pair");
            Some((name.to_owned(), Some(case.filled(text, payment, rail).expect("known")?)))
        })
        .collect();
    wanted.sort();
    assert!(agrees(&python["query"], &wanted), "the query of {}", shown());
    for (name, text) in step.get("headers").and_then(toml::Value::as_table).into_iter().flatten() {
        let sent = request.headers.iter().filter(|(sent, _)| sent == name).map(|(_, value)| value.clone());
        match case.filled(text.as_str().expect("a text"), payment, rail) {
            Ok(wanted) => {
                assert_eq!(sent.collect::<Vec<_>>(), wanted.into_iter().collect::<Vec<_>>(), "{name}")
            }
            Err(()) => assert!(sent.count() <= 1),
        }
    }
    let plain = |text: &str| text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    assert!(
        request.headers.iter().all(|(name, value)| plain(name) && plain(value)),
        "headers of {}",
        shown()
    );
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
        let sent = case.payment().and_then(|payment| {
            rail.form.check(&payment).is_empty().then(|| {
                let values: Vec<(String, String)> = rail
                    .form
                    .variables()
                    .filter_map(|(name, ..)| Some((name.to_owned(), case.free.clone()?)))
                    .collect();
                let now = "2026-01-15T09:30:00Z".parse().expect("a time");
                let input = Input {
                    payment: &payment,
                    values: &values,
                    captured: &BTreeMap::new(),
                    secrets: &Shown,
                    challenge: None,
                    now,
                };
                let way = rail.form.way(&payment).expect("it was checked");
                let asked = rail.form.steps_of(Operation::QueryStatus);
                let written: Vec<_> = way
                    .into_iter()
                    .chain(asked)
                    .filter_map(|step| rail.form.fill(step, &input).ok())
                    .collect();
                (payment.clone(), written)
            })
        });
        match sent {
            Some((payment, requests)) if !requests.is_empty() => {
                *left += 1;
                for request in &requests {
                    look(rail, &case, &payment, request, &mut readers);
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
