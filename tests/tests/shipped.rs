//! What a release ships: the binary without what only development needs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::{env, fs};

use harness::{Db, Pg, railhost_path};

/// Where it is, for a run that has built everything before.
const BUILT: &str = "RAILHOST_TEST_SHIPPED_BINARY";
/// Words of the private PostgreSQL, of the simulators and of the benchmark.
const OF_DEVELOPMENT: [&str; 4] = ["railhost-guardian", "RAILHOST_PG_FETCH", "/_sim/", "1-burn-down"];

fn shipped() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(built) = env::var_os(BUILT) {
            return built.into();
        }
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/shipped");
        let built = Command::new("cargo")
            .args([
                "build",
                "--quiet",
                "--locked",
                "--package",
                "railhost",
                "--no-default-features",
                "--target-dir",
            ])
            .arg(&target)
            .status()
            .expect("cargo runs");
        assert!(built.success(), "the shipped build does not build");
        target.join("debug/railhost")
    })
}

fn run(arguments: &[&str]) -> Output {
    Command::new(shipped()).args(arguments).env_remove("DATABASE_URL").output().expect("railhost runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_shipped_binary_holds_nothing_of_development() {
    let holds = |binary: &Path, word: &str| {
        let bytes = fs::read(binary).unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
        aho_corasick::AhoCorasick::new([word]).expect("a word").is_match(&bytes)
    };
    for word in OF_DEVELOPMENT {
        assert!(
            holds(railhost_path(), word),
            "{word} is in the development build, or this test looks for nothing"
        );
        assert!(!holds(shipped(), word), "{word} is in the shipped build");
    }
}

#[test]
fn each_binary_says_which_build_it_is() {
    let version = text(&run(&["--version"]).stdout);
    assert!(version.contains(env!("CARGO_PKG_VERSION")) && version.contains(", shipped)"), "{version}");
    let commit = version.split("commit ").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default();
    assert!(
        commit == "unknown" || commit.len() == 12 && commit.chars().all(|c| c.is_ascii_hexdigit()),
        "{version}"
    );
    let other = Command::new(railhost_path()).arg("--version").output().expect("railhost runs");
    assert!(text(&other.stdout).contains(", with development)"), "{}", text(&other.stdout));
}

#[test]
fn commands_of_development_are_not_offered_and_asked_for_they_say_who_has_them() {
    let help = text(&run(&["--help"]).stdout);
    for command in ["demo", "simulate", "bench"] {
        let offered = help.lines().any(|line| line.trim_start().starts_with(command));
        assert!(!offered, "{help}");
        let asked = run(&[command]);
        assert_eq!(asked.status.code(), Some(64), "{command}");
        assert!(text(&asked.stderr).contains("railhost-dev has it"), "{}", text(&asked.stderr));
    }
    let said = text(&run(&["plugin", "run", "myrail"]).stderr);
    assert!(said.contains("plugin run is for development: railhost-dev has it"), "{said}");
    let offers: Vec<_> =
        help.lines().filter(|line| line.contains("--dev") && !line.contains("railhost-dev")).collect();
    assert_eq!(offers, Vec::<&str>::new());
    let nowhere = tempfile::tempdir().expect("a folder");
    let asked =
        Command::new(shipped()).current_dir(&nowhere).env_remove("DATABASE_URL").arg("status").output();
    let said = text(&asked.expect("railhost runs").stderr);
    assert!(said.contains("no database is configured") && !said.contains("--dev"), "{said}");
    assert!(text(&run(&["--dev", "serve"]).stderr).contains("railhost-dev has it"));
}

#[tokio::test]
async fn the_shipped_binary_migrates_and_looks() {
    let db = Db::empty(Pg::V18).await;
    let folder = tempfile::tempdir().expect("a folder");
    for (command, wanted) in [("migrate", "now of railhost"), ("gaps", "")] {
        let mut railhost = Command::new(shipped());
        let done = railhost.current_dir(folder.path()).env("DATABASE_URL", db.url()).arg(command).output();
        let done = done.expect("railhost runs");
        assert!(done.status.success(), "{command}: {}", text(&done.stderr));
        assert!(text(&done.stdout).contains(wanted), "{command}: {}", text(&done.stdout));
    }
}
