//! What stands under the help of each command. A test reads every line of them as a shell would.

macro_rules! exit_codes {
    () => {
        "

Exit codes: 0 done, 3 gaps found, 64 wrong arguments or configuration, 65 the payment or some lines refused,
66 no such payment, participant, rail or file, 69 PostgreSQL not available or not migrated, 77 refused as things stand,
1 anything else."
    };
}

#[cfg(feature = "dev")]
pub(super) const ALL: &str = concat!(
    "Examples:
  railhost demo                                   see payments move through a PostgreSQL of its own
  railhost --dev serve                            carry them to their rails
  railhost --dev enqueue --file payments.csv      accept a file of payments, again if need be
  railhost --dev status                           what waits, what is leased, what is parked
  railhost --dev list --review                    what a person has to look at
  railhost --dev find inv-1                       where is this payment?
  railhost --dev timeline --instruction inv-1     and what happened to it?
  railhost --dev pause mock --by ada --why 'float is low'
  railhost --dev resolve 0198c5a2-7b1e-7c3d-9f00-1234567890ab --money-moved no --evidence 'statement of 3 May' --by ada --why 'asked the rail'",
    exit_codes!()
);

#[cfg(not(feature = "dev"))]
pub(super) const ALL: &str = concat!(
    "Examples:
  railhost --config config/production.toml migrate
  railhost --config config/production.toml serve
  railhost enqueue --file payments.csv      accept a file of payments, again if need be
  railhost status                           what waits, what is leased, what is parked
  railhost find inv-1                       where is this payment?

This build has no demo, simulate, bench, plugin run or --dev: railhost-dev has them.",
    exit_codes!()
);

pub(super) const SERVE: &str = "Examples:
  railhost --config config/production.toml serve
  railhost --config config/production.toml serve --log-format json";

pub(super) const MIGRATE: &str = "Examples:
  railhost --config config/production.toml migrate";

pub(super) const ENQUEUE: &str = "Examples:
  railhost enqueue --instruction inv-1 --participant acme --rail mock --payload '{\"amount\":\"12.50\",\"currency\":\"ZMW\",\"destination\":\"260971234567\"}'
  railhost enqueue --file payments.csv --dry-run        check all lines, and the sums per rail and currency
  railhost enqueue --file payments.csv                  accept the good ones, name the bad ones (exit 65)
  railhost enqueue --file - --format jsonl              from standard input

While PostgreSQL is away, --file waits for it for up to two minutes.";

pub(super) const CANCEL: &str = "Examples:
  railhost cancel 0198c5a2-7b1e-7c3d-9f00-1234567890ab --by ada --why 'the customer asked'
  railhost cancel --rail mnt --by ada --why 'there is no such rail'                        shows what it would cancel
  railhost cancel --participant acme --state pending,parked --yes --by ada --why 'ended'

Refused once anything of a payment may have left.";

pub(super) const STATUS: &str = "Examples:
  railhost status
  railhost status --watch
  railhost status --json";

pub(super) const LIST: &str = "Examples:
  railhost list --state failed --since 2h
  railhost list --rail mtn --review
  railhost list --participant acme --since 2026-05-01 --until 2026-06-01 --limit 1000000 --csv

Every month of the history is read, unless --since and --until say which. Payees are masked, here and everywhere.";

pub(super) const FIND: &str = "Examples:
  railhost find inv-1
  railhost find 260971234567 --since 3d
  railhost find 12.50 --participant acme
  railhost find 9f86d081-884c-4d65-9a2f-eaa0c55ad015        the key under which the rail knows it

Every month of the history is read, unless --since and --until say which. A payment whose month has left is known by its
outbox id, its reference or key at the rail, and its instruction where that was its idempotency key too.";

pub(super) const TIMELINE: &str = "Examples:
  railhost timeline 0198c5a2-7b1e-7c3d-9f00-1234567890ab
  railhost timeline --instruction inv-1
  railhost timeline --instruction inv-1 --key second-try";

pub(super) const GAPS: &str = "Examples:
  railhost gaps
  railhost gaps --participant acme --since 2026-05-01 --until 2026-06-01

Exit code 3 says that there are gaps.";

pub(super) const PAUSE: &str = "Examples:
  railhost pause mock --by ada --why 'float is low'";

pub(super) const RESUME: &str = "Examples:
  railhost resume mock --by ada --why 'topped up'";

pub(super) const SUSPEND: &str = "Examples:
  railhost suspend acme --by ada --why 'fraud desk'
  railhost suspend acme-new --unseen --by ada --why 'not before the contract is signed'";

pub(super) const REINSTATE: &str = "Examples:
  railhost reinstate acme --by ada --why 'cleared'";

pub(super) const ORDER: &str = "Examples:
  railhost order acme strict --by ada --why 'their ledger needs it'
  railhost order acme parallel --by ada --why 'no longer'";

pub(super) const REISSUE: &str = "Examples:
  railhost reissue 0198c5a2-7b1e-7c3d-9f00-1234567890ab --instruction inv-1-again --by ada --why 'the rail was down'
  railhost reissue 0198c5a2-7b1e-7c3d-9f00-1234567890ab --instruction inv-1-again --payload '{\"amount\":\"12.50\",\"currency\":\"ZMW\",\"destination\":\"260971234568\"}' --by ada --why 'payee corrected'
  railhost reissue --rail mtn --error-code PAYEE_BARRED --since 1d --suffix -r1 --by ada --why 'the rail was wrong'        shows what it would reissue

Refused where money moved or may have moved.";

pub(super) const RESOLVE: &str = "Examples:
  railhost resolve 0198c5a2-7b1e-7c3d-9f00-1234567890ab --money-moved no --evidence 'statement of 3 May, line 17' --by ada --why 'asked the rail'
  railhost resolve --rail mtn --review --since 1d --money-moved no --evidence 'ticket 4711' --yes --by ada --why 'outage at the rail'";

pub(super) const RETENTION: &str = "Examples:
  railhost retention --dry-run
  railhost retention --export /var/lib/railhost/exports";

pub(super) const CHECK: &str = "Examples:
  railhost --config config/production.toml check";

pub(super) const PLUGIN: &str = "Examples:
  railhost plugin new myrail
  railhost plugin inspect myrail.wasm
  railhost plugin test myrail.wasm --rail rail.toml --exchanges exchanges";

pub(super) const PLUGIN_NEW: &str = "Examples:
  railhost plugin new myrail
  railhost plugin new myrail --lang python
  railhost plugin new myrail --lang js --into adapters";

pub(super) const PLUGIN_INSPECT: &str = "Examples:
  railhost plugin inspect myrail.wasm
  railhost plugin inspect myrail.wasm --json";

pub(super) const PLUGIN_EXTRACT: &str = "Examples:
  railhost plugin extract mtn --out config/rails/mtn.wasm        prints the two lines that pin it";

pub(super) const PLUGIN_FORM: &str = "Examples:
  railhost plugin form config/rails/mtn.toml
  railhost plugin form rail.toml --against approved/rail.toml        what an approver has to look at";

pub(super) const PLUGIN_TEST: &str = "Examples:
  railhost plugin test myrail.wasm
  railhost plugin test myrail.wasm --rail rail.toml --exchanges exchanges
  railhost plugin test myrail.wasm --rail rail.toml --exchanges exchanges --report report.json";

pub(super) const PLUGIN_RECORD: &str = "Examples:
  railhost plugin record --rail rail.toml --payment '{\"amount\": \"1.00\", \"currency\": \"ZMW\", \"destination\": \"260961234567\"}' --out recorded

One payment is really made: point base at the rail's sandbox or at a simulator.";

pub(super) const PLUGIN_REPLAY: &str = "Examples:
  railhost plugin replay myrail.wasm --rail rail.toml --exchanges recorded

Exit code 3 says that something comes to another verdict.";

pub(super) const PLUGIN_KEY: &str = "Examples:
  railhost plugin key --out signing.pem        prints the public key, for the rail files";

pub(super) const PLUGIN_SIGN: &str = "Examples:
  railhost plugin sign myrail.wasm --rail myrail.toml --key signing.pem
  railhost plugin sign myrail.wasm --rail myrail.toml --key signing.pem --out config/rails/myrail.wasm.sig";

pub(super) const PLUGIN_VERIFY: &str = "Examples:
  railhost plugin verify myrail.wasm --rail myrail.toml --signature myrail.wasm.sig --trusted 3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29

Exit code 65 says that none of the keys has signed it.";

pub(super) const PLUGIN_PUSH: &str = "\
Examples:
  railhost plugin push myrail.wasm --to registry.example/rails/myrail:1.0
  railhost plugin push myrail.wasm --rail myrail.toml --signature myrail.wasm.sig --to registry.example/rails/myrail:1.0";

pub(super) const PLUGIN_PULL: &str = "\
Examples:
  railhost plugin pull registry.example/rails/myrail@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 --out pulled";

pub(super) const PLUGIN_REVOKE: &str = "Examples:
  railhost plugin revoke 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 --by ada --why 'stolen key'

It is for good: a component that is trusted again is another one.";

pub(super) const COMPLETIONS: &str = "Examples:
  railhost completions bash";

pub(super) const MAN: &str = "Examples:
  railhost man
  railhost man --folder man1";
