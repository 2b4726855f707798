//! The demo's rails: the mock, and MTN, Airtel and the bank, each with a simulator of its own that behaves badly. They are the
//! project's own rail files, with pauses that one can wait for.

use std::fs;
use std::path::Path;

use crate::rail_files;
use anyhow::Context;
use payment::KeyForm;
use rail_simulators::{Name, Simulator, SimulatorOptions};
use serde_json::{Value, json};
use toml::{Table, Value as Toml};

/// Names of their own, so that the demo touches nobody else's payments.
pub(super) const RAILS: [&str; 4] = ["demo-mtn", "demo-airtel", "demo-bank", "demo-mock"];

const QUICK: &str = r#"
timeouts = { call_ms = 1000, first_byte_ms = 600, idle_ms = 600 }

[pace]
lease_seconds = 9
retry = { base_ms = 200, factor = 1.5, cap_ms = 2000 }
query = { base_ms = 300, factor = 1.3, cap_ms = 2000 }
reconcile_seconds = 0
visibility_seconds = 0
breaker = { calls_min = 20, failed_percent = 80, open_ms = 1000 }
"#;

/// Fast; slow for some; flaky; and losing replies.
const MOCK_SCRIPT: &str = "
amount *.13: declined INSUFFICIENT_FUNDS
amount *.31: declined A_CODE_THAT_NO_TABLE_LISTS
amount *.7*: pending, pending, settled
amount *.8*: delay 400 settled
amount *.9*: either 7 settled | 1 not-sent | 1 declined BUSY | 1 trap
amount *.2*: either 2 settled | 1 unclear REPLY_LOST
otherwise: settled
";

/// One reply in ten goes wrong, before or after the money moved; questions fare little better.
const FAULTS: &str = "pay either 90 accept | 3 close-after | 2 reset-after | 1 close-before | 1 reset-before | 1 html-after 502 \
    | 1 html-before 503 | 1 truncate; ask either 94 accept | 3 html 503 | 2 close | 1 reset";

/// A simulated rail of the demo.
pub(super) struct SimulatedRail {
    pub rail: &'static str,
    pub simulator: Simulator,
    /// How the rail writes our key.
    pub form: KeyForm,
}

/// Starts the simulators and writes the rail files.
pub(super) async fn start(folder: &Path) -> anyhow::Result<Vec<SimulatedRail>> {
    fs::create_dir_all(folder.join("simulated"))
        .with_context(|| format!("cannot make {}", folder.display()))?;
    for (path, text) in rail_files::SIMULATED {
        fs::write(folder.join(path), text)?;
    }
    let mut mock = file("mock", |text| text)?;
    section(&mut mock, "settings")?.insert("script".to_owned(), MOCK_SCRIPT.into());
    fs::write(folder.join("demo-mock.toml"), mock.to_string())?;

    let mut played = Vec::new();
    for (rail, name, form, no, strange) in [
        ("demo-mtn", Name::Mtn, KeyForm::Uuid, "PAYEE_NOT_FOUND", "A_REASON_THAT_NO_TABLE_LISTS"),
        ("demo-airtel", Name::Airtel, KeyForm::Hex, "DP00900001012", "DP00900009999"),
        ("demo-bank", Name::Bank, KeyForm::Hex32, "AC04", "ZZ99"),
    ] {
        let script = format!(
            "amount *.13: {FAULTS}; then failed {no}\namount *.31: {FAULTS}; then failed {strange}\n\
             amount *.7*: {FAULTS}; then pending, after 2s settled\notherwise: {FAULTS}"
        );
        let options =
            SimulatorOptions { seed: "demo".to_owned(), ..SimulatorOptions::new(name).script(&script) };
        let simulator = Simulator::start(options).await?;
        let base = simulator.base();
        let file = file(name.as_str(), |text| {
            let text = text.replace(&format!("http://127.0.0.1:{}", name.port()), &base);
            // Each demo has other ports.
            format!("provider = \"the demo's simulator\"\n{text}")
        })?;
        fs::write(folder.join(format!("{rail}.toml")), file.to_string())?;
        played.push(SimulatedRail { rail, simulator, form });
    }
    Ok(played)
}

/// A rail file of the project, quickened and without a rate.
fn file(name: &str, change: impl Fn(String) -> String) -> anyhow::Result<Table> {
    let text = rail_files::rail_file(name).with_context(|| format!("{name} has no file"))?;
    let mut file: Table = change(text.to_owned()).parse()?;
    file.remove("rate");
    file.extend(QUICK.parse::<Table>()?);
    Ok(file)
}

fn section<'f>(file: &'f mut Table, name: &str) -> anyhow::Result<&'f mut Table> {
    file.get_mut(name).and_then(Toml::as_table_mut).with_context(|| format!("no section {name}"))
}

/// The n-th payment of the demo.
pub(super) fn payload(rail: &str, n: usize) -> Value {
    let destination = match rail {
        "demo-bank" => {
            json!({ "account": format!("{n:013}"), "bank_code": "210003", "name": "Payee of the demo" })
        }
        "demo-airtel" => json!({ "msisdn": format!("26097{n:07}") }),
        _ => json!({ "msisdn": format!("26096{n:07}") }),
    };
    json!({
        "amount": format!("{}.{:02}", 1 + n % 500, n / RAILS.len() % 100),
        "currency": "ZMW",
        "destination": destination,
        "narrative": "demo",
    })
}
