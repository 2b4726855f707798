use std::env;
use std::path::PathBuf;
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
        // Test executables stand in target/<profile>/deps.
        let me = env::current_exe().expect("a test knows where it is");
        me.ancestors().nth(2).expect("target/<profile>/deps").join("railhost")
    });
    let mut command = Command::new(binary);
    for variable in ["DATABASE_URL", "RAILHOST_CONFIG", "RAILHOST_LOG"] {
        command.env_remove(variable);
    }
    command
}
