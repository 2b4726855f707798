//! Where adapters are tried: a sandbox, a folder of rail files, a rail to talk to.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use payment::{Instruction, PaymentIds};
use rail::definition::Definition;
use rail::{
    CallReport, CompileLimits, LoadError, LoadEvent, Loaded, Rails, Rules, Sandbox, SandboxOptions, Task,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use uuid::Uuid;
use verdict::call_error::CallError;
use verdict::digest::Digest;

use crate::canary::Canaries;
use crate::rail::{ReceivedRequest, Reply, StubRail};
use crate::{PATIENCE, railhost_path};

/// Secrets that must not show up anywhere.
pub const API_KEY: &str = "canary-api-key-5f2c";
pub const USER: &str = "canary-user-91aa";
pub const PASSWORD: &str = "canary-password-77d0";

/// Deadlines that only a rail which never answers comes to, on a busy machine too.
pub const PATIENT: &str =
    "timeouts = { call_ms = 20000, connect_ms = 15000, first_byte_ms = 15000, idle_ms = 15000 }";

/// The form of the file: a token, a request to pay and a question.
const FORM: &str = r#"[secrets]
            api-key = { file = "api-key" }
            user = { file = "user" }
            password = { file = "password" }

            [computed]
            credentials = { basic = { user = "user", password = "password" } }

            [tokens.access]
            step = "token"
            value = "/access_token"
            lifetime = "/expires_in"

            [network]
            reach = "loopback"

            [destination]
            plain = "msisdn"
            parts = { msisdn = { kind = "msisdn", country = "260" } }

            [variables]
            note = { purpose = "whatever a guest has to say", field = { chars = "ascii", max = 200, optional = true } }

            [steps.token]
            class = "session"
            request = "POST {base}/token"
            headers = { authorization = "Basic {computed.credentials}" }

            [disburse]
            steps = ["pay"]

            [steps.pay]
            class = "money"
            request = "POST {base}/pay"
            headers = { x-reference-id = "{key:uuid}", x-api-key = "{secret.api-key}" }
            json = '''
            { "amount": "{amount:decimal}", "currency": "{currency}", "payee": "{destination.msisdn}", "key": "{key:uuid}", "note": "{adapter.note?}" }
            '''
            reply.any = { body = "text", facts.text.whole = true, reference.header = "x-reference" }

            [query-status]
            steps = ["status"]

            [steps.status]
            class = "read"
            request = "GET {base}/pay/{key:uuid}"
            headers = { x-api-key = "{secret.api-key}" }
            reply.any = { body = "text", facts.text.whole = true, reference.header = "x-reference" }

            [codes]
            version = 1
            rows = [
              { field = "text", code = "paid", class = "success" },
              { field = "text", code = "refused", class = "terminal" },
              { field = "text", code = "later", class = "pending" },
              { operation = "query-status", field = "text", code = "unknown", class = "not-found" },
            ]
            "#;

#[derive(Debug)]
pub struct AdapterRig {
    pub sandbox: Arc<Sandbox>,
    pub rail: StubRail,
    folder: TempDir,
}

/// The bytes of a guest in `tests/guests`.
pub fn guest(name: &str) -> Vec<u8> {
    let path = Path::new(env!("GUESTS")).join(format!("{name}.wasm"));
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A payment of 10.50 ZMW.
pub fn instruction() -> Arc<Instruction> {
    let ids = PaymentIds {
        outbox_id: Uuid::now_v7(),
        instruction_id: "inv-1".to_owned(),
        participant_id: "acme".to_owned(),
        sequence_id: 1,
    };
    let payload =
        json!({ "amount": "10.50", "currency": "ZMW", "destination": { "msisdn": "260961234567" } });
    Arc::new(Instruction::read(ids, &payload.to_string(), 1).expect("a good payment"))
}

/// A file that only its owner may read.
pub fn write_secret(path: &Path, value: &str) {
    fs::write(path, value).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("changed");
}

impl AdapterRig {
    /// With a rail that answers every request in the given way.
    pub async fn with(answer: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self::compiling(CompileLimits::default(), answer).await
    }

    /// With a rail that pays, and other limits for the compiler.
    pub async fn compiling_within(limits: CompileLimits) -> Self {
        Self::compiling(limits, |_| Reply::says(200, "paid")).await
    }

    async fn compiling(
        compile: CompileLimits,
        answer: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let options = SandboxOptions { calls_max: 64, compile, ..SandboxOptions::default() };
        let sandbox =
            Sandbox::new(&folder.path().join("compiled"), railhost_path(), options).expect("a sandbox");
        for (name, value) in [("api-key", API_KEY), ("user", USER), ("password", PASSWORD)] {
            write_secret(&folder.path().join(name), value);
        }
        Self { sandbox: Arc::new(sandbox), rail: StubRail::start(answer).await, folder }
    }

    /// With a rail that pays.
    pub async fn new() -> Self {
        Self::with(|_| Reply::says(200, "paid")).await
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A rail file for a component, with `more` in front of it. The rail answers with a plain text: paid, refused, later.
    pub fn file(&self, component: &[u8], more: &str) -> String {
        let digest = Digest::of(component);
        let name = format!("{digest}.wasm");
        fs::write(self.path(&name), component).expect("written");
        let base = self.rail.base();
        format!(
            r#"
            component = "{name}"
            sha256 = "{digest}"
            idempotent = true
            hand_over_marks = false
            {more}

            base = "{base}"
            currencies = ["ZMW"]

            {FORM}"#
        )
    }

    /// Makes a rail of the folder `rails` out of a component and a change to its file.
    pub fn put_rail(&self, name: &str, component: &[u8], change: impl Fn(String) -> String) {
        let folder = self.path("rails");
        fs::create_dir_all(&folder).expect("a folder");
        let text = change(self.file(component, PATIENT));
        let file = format!("{}.wasm", Digest::of(component));
        fs::copy(self.path(&file), folder.join(&file)).expect("copied");
        for secret in ["api-key", "user", "password"] {
            if !folder.join(secret).exists() {
                fs::copy(self.path(secret), folder.join(secret)).expect("copied");
            }
        }
        fs::write(folder.join(format!("{name}.toml")), text).expect("written");
    }

    /// Loads the folder `rails`. What becomes of each rail is told to the second of these.
    pub async fn load_rails(&self, rules: Rules) -> Result<(Rails, UnboundedReceiver<LoadEvent>), LoadError> {
        let (events, told) = mpsc::unbounded_channel();
        Ok((Rails::load(&self.sandbox, &self.path("rails"), rules, events).await?, told))
    }

    pub async fn load_file(&self, text: &str) -> Result<Loaded, LoadError> {
        let definition = Definition::parse("test", self.folder.path(), text).expect("a sound file");
        Loaded::load(&self.sandbox, &definition).await
    }

    /// Loads bytes as they are.
    pub async fn load_bytes(&self, component: &[u8]) -> Result<Loaded, LoadError> {
        self.load_file(&self.file(component, "")).await
    }

    /// Loads a guest with little processor time. Its deadlines are patient: a test of a deadline brings a short one of its own.
    pub async fn load(&self, name: &str) -> Loaded {
        self.load_with(name, &format!("{PATIENT}\nlimits = {{ cpu_ms = 100 }}")).await
    }

    pub async fn load_with(&self, name: &str, more: &str) -> Loaded {
        let (file, patience) = (self.file(&guest(name), more), Instant::now());
        loop {
            match self.load_file(&file).await {
                Ok(loaded) => return loaded,
                // Every guest describes itself at once: where that ran into a short limit the machine was busy.
                Err(LoadError::Describe(CallError::Deadline(_) | CallError::Cpu(_)))
                    if patience.elapsed() < PATIENCE => {}
                Err(error) => panic!("{name}: {error}"),
            }
        }
    }

    /// One payment, whatever the guest does with it. No secret of the rail shows in anything that is known of it afterwards.
    pub async fn disburse(&self, loaded: &Loaded) -> CallReport {
        let attempt = loaded.call(&self.sandbox, Task::Disburse, instruction(), None).await;
        let mut canaries = Canaries::default();
        for (name, secret) in [("api_key", API_KEY), ("user", USER), ("password", PASSWORD)] {
            canaries.add(name, secret);
        }
        let shown = |(at, bytes): (usize, &[u8])| (format!("exchange {at}"), bytes.to_vec());
        let requests = attempt.recorded.iter().map(|recorded| recorded.request.as_slice());
        let replies =
            attempt.recorded.iter().filter_map(|recorded| Some(recorded.reply.as_ref()?.body.as_slice()));
        let mut places: Vec<_> = requests.chain(replies).enumerate().map(shown).collect();
        places.push(("the attempt".to_owned(), format!("{attempt:?} {}", attempt.heard).into_bytes()));
        assert_eq!(canaries.found(&places), Vec::<String>::new());
        attempt
    }

    /// Loads a guest and lets it disburse once.
    pub async fn try_guest(&self, name: &str) -> CallReport {
        self.disburse(&self.load(name).await).await
    }
}
