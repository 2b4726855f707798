use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where the binary is, for a run that has built everything before.
const BINARY_BUILT: &str = "RAILHOST_TEST_BINARY";

/// The real binary, with nothing inherited that could configure it.
pub fn railhost() -> Command {
    let mut command = Command::new(railhost_path());
    for variable in ["DATABASE_URL", "RAILHOST_CONFIG", "RAILHOST_LOG"] {
        command.env_remove(variable);
    }
    command
}

/// Where it is, built if it is not. It also compiles components, for hosts that run inside a test.
pub fn railhost_path() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(built) = env::var_os(BINARY_BUILT) {
            return built.into();
        }
        let built = Command::new("cargo")
            // All binaries of the workspace, as the tests were built: for less, cargo picks other settings for what build
            // scripts share with us, and everything is compiled once more.
            .args(["build", "--quiet", "--locked", "--workspace", "--bins"])
            .status()
            .expect("cargo runs");
        assert!(built.success(), "railhost does not build");
        profile_folder().join("railhost")
    })
}

/// `target/<profile>`: a test stands in its folder `deps`, a binary in itself.
pub(crate) fn profile_folder() -> PathBuf {
    let me = env::current_exe().expect("a program knows where it is");
    let folder = me.parent().expect("a folder");
    if folder.ends_with("deps") {
        folder.parent().map(Path::to_owned).expect("a profile")
    } else {
        folder.to_owned()
    }
}
