//! An adapter from its source to a verdict: built, pinned, served by a host on a private PostgreSQL, with one payment, and every
//! exchange and every word of the guest on the screen.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use conformance::Case;
use dev::simulators::{Name, Simulator, SimulatorOptions};
use observe::Registry;
use outbox::enqueue::{Ingest, NewPayment};
use outbox::migrate;
use outbox::operate::Reason;
use outbox::read::Reader;
use rail::definition::Definition;
use rail::{Rails, Rules};
use relayer::{self, Exchanged, Metrics};
use tokio::sync::{mpsc, watch};
use toml::{Table, Value};
use uuid::Uuid;
use verdict::digest::Digest;

use crate::cli::adapters;
use crate::cli::session::CommandContext;
use dev::simulate::OwnRail;
use terminal::BadArgument;
use terminal::print::{out, say};

/// Longer than the default pace of a rail takes to ask a few times.
const VERDICT_WITHIN: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What tools make, and nobody edits.
const NOT_SOURCES: [&str; 5] = ["target", ".railhost", "node_modules", ".venv", "__pycache__"];

/// Under its help.
pub(super) const EXAMPLES: &str = "Examples:
  railhost plugin run
  railhost plugin run myrail --watch
  railhost plugin run myrail --script 'otherwise: pay close-after'";

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The adapter's folder, as plugin new writes it: its source, rail.toml and exchanges.
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// The payment's payload as JSON. Default: an example that fits the rail file.
    #[arg(long, value_name = "JSON")]
    payment: Option<String>,
    /// Use the real rail named in rail.toml instead of a simulator. The payment is really made.
    #[arg(long)]
    live: bool,
    /// A rule for the simulator, such as 'otherwise: pay close-after'.
    #[arg(long, value_name = "RULE", conflicts_with = "live", default_value = "")]
    script: String,
    /// Run again after every change of a source file.
    #[arg(long)]
    watch: bool,
}

impl RunArgs {
    pub(super) async fn run(self, session: &CommandContext) -> anyhow::Result<ExitCode> {
        loop {
            let seen = newest(&self.folder);
            match self.once(session).await {
                Ok(()) if !self.watch => return Ok(ExitCode::SUCCESS),
                Err(error) if !self.watch => return Err(error),
                Ok(()) => {}
                Err(error) => say(&format!("{error:#}")),
            }
            say("Waiting for a change; Ctrl-C ends it.");
            while newest(&self.folder) == seen {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }

    async fn once(&self, session: &CommandContext) -> anyhow::Result<()> {
        let component = build(&self.folder)?;
        let place = self.folder.join(".railhost/run");
        let name = format!("run-{}", Uuid::new_v4().simple());
        let rails = place.join(&name);
        fs::create_dir_all(&rails).with_context(|| format!("{} cannot be made", rails.display()))?;
        let done = self.on_rails(session, &component, &rails, &name).await;
        fs::remove_dir_all(&rails).ok();
        done
    }

    async fn on_rails(
        &self,
        session: &CommandContext,
        component: &Path,
        rails: &Path,
        name: &str,
    ) -> anyhow::Result<()> {
        let source = self.folder.join("rail.toml");
        let given = Definition::load(&source)?;
        let text = fs::read_to_string(&source).with_context(|| source.display().to_string())?;
        let mut file: Table = text.parse().with_context(|| source.display().to_string())?;
        let bytes = fs::read(component).with_context(|| component.display().to_string())?;
        file.insert("component".to_owned(), std::path::absolute(component)?.display().to_string().into());
        file.insert("sha256".to_owned(), Digest::of(&bytes).to_string().into());
        let simulator = match self.live {
            true => None,
            false => {
                let cases = Case::load_all(&self.folder.join("exchanges")).map_err(BadArgument::new)?;
                let options =
                    SimulatorOptions { script: self.script.clone(), ..SimulatorOptions::new(Name::Mtn) };
                let simulator = Simulator::play(Box::new(OwnRail::new(&given, cases)), options).await?;
                stand_in(&mut file, &given, &simulator.base(), rails)?;
                Some(simulator)
            }
        };
        let path = rails.join(format!("{name}.toml"));
        fs::write(&path, file.to_string()).with_context(|| path.display().to_string())?;
        let definition = Definition::load(&path)?;
        let reason = Reason { by: "railhost plugin run".to_owned(), why: "an adapter is tried".to_owned() };
        migrate::tell_of_rails(session.database(), &[crate::config::rail_facts(name, &definition)], &reason)
            .await?;

        let (events, _told) = mpsc::unbounded_channel();
        let sandbox = Arc::new(adapters::sandbox(&session.config)?);
        let rules = Rules { recorded: true, ..Rules::default() };
        let served = Arc::new(Rails::load(&sandbox, rails, rules, events).await?);
        let (recorder, mut exchanged) = mpsc::unbounded_channel();
        let options =
            relayer::RelayerOptions { recorder: Some(recorder), ..relayer::RelayerOptions::default() };
        let (stop, stopped) = watch::channel(false);
        let metrics = Arc::new(Metrics::new(&Registry::default())?);
        let host = relayer::run(session.database(), sandbox, served, metrics, options, stopped);
        let payment = async {
            let verdict = self.pay(session, name, &definition, &mut exchanged).await;
            stop.send_replace(true);
            verdict
        };
        let (left, verdict) = tokio::join!(host, payment);
        left?;
        while let Ok(more) = exchanged.try_recv() {
            show(&more)?;
        }
        out(&format!("{}\n", verdict?))?;
        if let Some(simulator) = simulator {
            out(&format!("the simulator paid {} time(s)\n", simulator.counts().executions))?;
        }
        Ok(())
    }

    /// One payment, until it has its verdict.
    async fn pay(
        &self,
        session: &CommandContext,
        rail: &str,
        definition: &Definition,
        exchanged: &mut mpsc::UnboundedReceiver<Exchanged>,
    ) -> anyhow::Result<String> {
        let payload = match &self.payment {
            Some(json) => json.clone(),
            None => {
                let currency = definition.form.currencies.first().map_or("ZMW", String::as_str);
                definition
                    .form
                    .example_payment(currency)
                    .map_err(|why| anyhow!("rail.toml: {why}"))?
                    .payload
                    .to_string()
            }
        };
        let payload: serde_json::Value = serde_json::from_str(&payload)
            .map_err(|error| BadArgument::new(format!("--payment is not valid JSON: {error}")))?;
        let id = Uuid::new_v4().to_string();
        let payment = NewPayment {
            instruction_id: id.clone(),
            participant_id: "plugin-run".to_owned(),
            idempotency_key: id,
            rail_type: rail.to_owned(),
            payload: payload.into(),
        };
        let accepted = Ingest::new(session.database(), 1).enqueue_batch(&[payment]).await?.remove(0)?;
        let (reader, began) = (Reader::new(session.database()), Instant::now());
        loop {
            while let Ok(more) = exchanged.try_recv() {
                show(&more)?;
            }
            let endings = reader.endings(&[accepted.outbox_id]).await?;
            if let Some(ending) = endings.first().filter(|ending| ending.state.is_some()) {
                let money = ending.money_moved.as_deref().unwrap_or("unknown");
                return Ok(format!("{}, money moved: {money}", ending.state.as_deref().unwrap_or_default()));
            }
            if began.elapsed() > VERDICT_WITHIN {
                bail!(
                    "no verdict within {} s; railhost --dev timeline {} tells more",
                    VERDICT_WITHIN.as_secs(),
                    accepted.outbox_id
                );
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Every exchange of a call, what came of it, and what the guest wrote.
fn show(exchanged: &Exchanged) -> anyhow::Result<()> {
    let report = &exchanged.report;
    let safe = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.lines().map(|line| payment::plain(line).into_owned()).collect::<Vec<_>>()
    };
    out(&format!("\n== {}, {} ms\n", exchanged.task.as_str(), report.took.as_millis()))?;
    for recorded in &report.recorded {
        for line in safe(&recorded.request) {
            out(&format!("{} > {line}\n", recorded.step))?;
        }
        match &recorded.reply {
            None => out(&format!("{} < no whole reply\n", recorded.step))?,
            Some(reply) => out(&format!("{} < HTTP {}\n", recorded.step, reply.status))?,
        };
        for line in recorded.reply.iter().flat_map(|reply| safe(&reply.body)) {
            out(&format!("{} < {line}\n", recorded.step))?;
        }
    }
    for line in &report.log {
        out(&format!("adapter says: {line}\n"))?;
    }
    out(&format!("{}\n", report.heard))?;
    Ok(())
}

/// The rail file with a simulator and made-up secrets in the place of what only the platform team has.
fn stand_in(file: &mut Table, given: &Definition, base: &str, rails: &Path) -> anyhow::Result<()> {
    file.insert("base".to_owned(), base.into());
    file.insert("network".to_owned(), Value::Table("reach = \"loopback\"".parse()?));
    file.remove("signature");
    file.remove("exchanges");
    let reference = |name: &str, text: &str| -> anyhow::Result<Value> {
        let path = rails.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        Ok(Value::Table(Table::from_iter([("file".to_owned(), name.to_owned().into())])))
    };
    for name in given.file.secrets.keys() {
        file["secrets"][name] = reference(name, &Uuid::new_v4().to_string())?;
    }
    let mut unused = BTreeMap::new();
    for (name, key) in &given.file.keys {
        let text = key.algorithm.made_up().map_err(|why| anyhow!("keys.{name}: {why}"))?;
        let place = reference(&format!("{name}.key"), &text)?;
        let Some(key_of_file) = file["keys"][name].as_table_mut() else { continue };
        key_of_file.insert("key".to_owned(), place);
        key_of_file.remove("bits");
        if key_of_file.remove("fetch").is_some()
            && let Some(fetch) = &key.fetch
        {
            unused.insert(fetch.step.clone(), ());
        }
    }
    let is_token = |step: &String| given.file.tokens.values().any(|rule| rule.step == *step);
    if let Some(steps) = file.get_mut("steps").and_then(Value::as_table_mut) {
        unused.keys().filter(|step| !is_token(step)).for_each(|step| drop(steps.remove(step)));
    }
    Ok(())
}

/// Builds an adapter as its folder says, and answers with its component.
fn build(folder: &Path) -> anyhow::Result<PathBuf> {
    let (program, arguments, built): (&str, &[&str], PathBuf) = if folder.join("Cargo.toml").exists() {
        (
            "cargo",
            &["build", "--release", "--target", "wasm32-wasip2"],
            folder.join("target/wasm32-wasip2/release"),
        )
    } else if folder.join("build").exists() {
        ("sh", &["build"], folder.to_owned())
    } else {
        return Err(BadArgument::new(format!(
            "{} has neither Cargo.toml nor build, expected an adapter's folder",
            folder.display()
        ))
        .into());
    };
    say(&format!("Building: {program} {}", arguments.join(" ")));
    let status = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .status()
        .with_context(|| program.to_owned())?;
    if !status.success() {
        bail!("{program} {} ended with {status}", arguments.join(" "));
    }
    let made = |path: &PathBuf| fs::metadata(path).and_then(|found| found.modified()).ok();
    let components = fs::read_dir(&built)
        .with_context(|| built.display().to_string())?
        .flatten()
        .map(|entry| entry.path());
    let newest = components.filter(|path| path.extension().is_some_and(|end| end == "wasm")).max_by_key(made);
    newest.ok_or_else(|| anyhow!("{} has no component after the build", built.display()))
}

/// When a source was changed last.
fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let of = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.file_type().ok()?.is_dir() {
            true if NOT_SOURCES.contains(&name.as_str()) => None,
            true => newest(&entry.path()),
            false if name.ends_with(".wasm") || name == "Cargo.lock" => None,
            false => entry.metadata().ok()?.modified().ok(),
        }
    };
    entries.filter_map(of).max()
}
