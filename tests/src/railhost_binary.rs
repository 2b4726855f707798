use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The real binary, built if it is not, with nothing inherited that could configure it.
pub fn railhost() -> Command {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let binary = BINARY.get_or_init(|| {
        let built = Command::new(env!("CARGO"))
            // All binaries of the workspace, as the tests were built: for less, cargo picks other settings for what build
            // scripts share with us, and everything is compiled once more.
            .args(["build", "--quiet", "--locked", "--workspace", "--bins"])
            .status()
            .expect("cargo runs");
        assert!(built.success(), "railhost does not build");
        profile_folder().join("railhost")
    });
    let mut command = Command::new(binary);
    for variable in ["DATABASE_URL", "RAILHOST_CONFIG", "RAILHOST_LOG"] {
        command.env_remove(variable);
    }
    command
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
