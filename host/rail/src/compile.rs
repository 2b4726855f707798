//! Compiling, in a process of its own with limits of its own: a small component can ask for hours and gigabytes of the
//! compiler, and no limit of the engine covers that. The serving process only loads what came out.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::{ExitStatusExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode, ExitStatus, Stdio};
use std::time::Duration;
use std::{env, fmt};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::timeout;
use wasmtime::{Engine, InstanceAllocationStrategy};

use super::artifact;
use super::engine::{self, engine_name};
use super::error::LoadError;

/// The first argument of a `railhost` that compiles one component and ends. Not for people.
pub const COMMAND: &str = "compile-component";
/// The program that is running, also after its file was replaced by a newer build.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// What the compiler may write: eight times the largest component that is taken.
const CODE_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Files that it may have open: its three streams, and what the standard library looks up about the machine.
const FILES_MAX: u64 = 16;
/// What is read of its complaints.
const SAID_BYTES_MAX: u64 = 16 * 1024;
/// All that it finds in its environment. The allocator takes memory only when it is asked for some, so that the limit
/// counts what is used. The number of threads does not depend on the machine, and so neither does the memory that a
/// component needs.
const ENVIRONMENT: [(&str, &str); 2] = [("MIMALLOC_ARENA_EAGER_COMMIT", "0"), ("RAYON_NUM_THREADS", "4")];
/// How it ends when it says itself why there is no code.
const REFUSED: u8 = 65;

/// What one compilation may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileLimits {
    /// Half of what the smallest machine for a host has.
    pub memory_mib: u32,
    /// On all processors together. A start with an empty cache waits this long for a component at most.
    pub cpu_seconds: u32,
    /// By the clock, for a machine that is busy with something else.
    pub wall: Duration,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self { memory_mib: 1024, cpu_seconds: 60, wall: Duration::from_secs(60) }
    }
}

/// Starts the process that compiles, one at a time.
pub(super) struct Compiler {
    program: PathBuf,
    limits: CompileLimits,
    /// Of the engine that the code is for.
    engine: String,
    turn: Mutex<()>,
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler").field("program", &self.program).finish_non_exhaustive()
    }
}

impl Compiler {
    pub(super) fn new(program: &Path, limits: CompileLimits, engine: &Engine) -> Self {
        Self { program: program.to_owned(), limits, engine: engine_name(engine), turn: Mutex::default() }
    }

    /// Compiles a component into a file. The process ends with this future, also when nobody waits for it any more.
    pub(super) async fn compile(&self, component: &[u8], code: File) -> Result<(), LoadError> {
        let _turn = self.turn.lock().await;
        let failed = |error: io::Error| {
            LoadError::Compile(format!("the compiler {} failed: {error}", self.program.display()))
        };
        let mut child = Command::new(&self.program)
            .arg(COMMAND)
            .args([self.limits.memory_mib.to_string(), self.limits.cpu_seconds.to_string()])
            .arg(&self.engine)
            .arg(process::id().to_string())
            .env_clear()
            .envs(ENVIRONMENT)
            .stdin(Stdio::piped())
            .stdout(code)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let ended = timeout(self.limits.wall, ended(&mut child, component)).await;
        match ended {
            Ok(ended) => {
                let (status, said) = ended.map_err(failed)?;
                self.judge(status, &said)
            }
            Err(_) => {
                child.kill().await.map_err(failed)?;
                Err(LoadError::CompileTime(self.limits.wall))
            }
        }
    }

    /// One sentence for each way to end.
    fn judge(&self, status: ExitStatus, said: &str) -> Result<(), LoadError> {
        let signal = status.signal();
        if status.success() {
            Ok(())
        } else if signal == Some(Signal::XCPU.as_raw()) {
            Err(LoadError::CompileCpu(self.limits.cpu_seconds))
        } else if signal == Some(Signal::XFSZ.as_raw()) {
            Err(LoadError::CompileSize(CODE_BYTES_MAX / (1024 * 1024)))
        } else if ran_out_of_memory(said) {
            Err(LoadError::CompileMemory(self.limits.memory_mib))
        } else if let Some(signal) = signal {
            Err(LoadError::Compile(format!("signal {signal} ended the compiler")))
        } else {
            Err(LoadError::Compile(artifact::one_line(said)))
        }
    }
}

async fn ended(child: &mut Child, component: &[u8]) -> io::Result<(ExitStatus, String)> {
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let tell = async move {
        if let Some(mut stdin) = stdin {
            // A compiler that no longer listens says elsewhere why.
            stdin.write_all(component).await.ok();
        }
    };
    let listen = async move {
        let mut said = Vec::new();
        if let Some(stderr) = stderr {
            stderr.take(SAID_BYTES_MAX).read_to_end(&mut said).await?;
        }
        Ok::<_, io::Error>(said)
    };
    let ((), said) = tokio::join!(tell, listen);
    let status = child.wait().await?;
    Ok((status, String::from_utf8_lossy(&said?).into_owned()))
}

/// The words in which Rust and Linux say that there is no room: an allocation, a buffer, a mapping, the stack of a thread; the
/// last two of these in each of the ways in which an error can be written.
fn ran_out_of_memory(said: &str) -> bool {
    [
        "memory allocation of",
        "out of memory",
        "os error 12",
        "os error 11",
        "Os { code: 12,",
        "Os { code: 11,",
    ]
    .iter()
    .any(|word| said.contains(word))
}

/// What `railhost compile-component MEMORY_MIB CPU_SECONDS ENGINE PARENT` does: a component comes on standard input, its code
/// goes to standard output. To be called before anything else in the process.
pub fn child() -> ExitCode {
    match compile_standard_input() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(REFUSED)
        }
    }
}

fn compile_standard_input() -> Result<(), String> {
    let arguments: Vec<String> = env::args().skip(2).collect();
    let [memory_mib, cpu_seconds, wanted, parent] = &arguments[..] else {
        return Err(format!("{COMMAND} takes 4 arguments, found {}", arguments.len()));
    };
    let number =
        |text: &str| text.parse::<u32>().map_err(|error| format!("{text:?} is not a number: {error}"));
    end_with(number(parent)?).map_err(|error| format!("the compiler does not begin: {error}"))?;
    limit_itself(number(memory_mib)?, number(cpu_seconds)?)
        .map_err(|error| format!("the limits of the compiler cannot be set: {error}"))?;

    let mut component = Vec::new();
    io::stdin()
        .take(artifact::BYTES_MAX + 1)
        .read_to_end(&mut component)
        .map_err(|error| format!("the component cannot be read: {error}"))?;
    // Compiled code does not depend on where instances live.
    let engine = Engine::new(&engine::config(InstanceAllocationStrategy::OnDemand))
        .map_err(|error| format!("the engine does not start: {error:#}"))?;
    let own = engine_name(&engine);
    if own != *wanted {
        return Err(format!(
            "the compiler is of another build: it makes code for engine {own}, the host runs {wanted}"
        ));
    }
    let code = engine.precompile_component(&component).map_err(|error| format!("{error:#}"))?;
    let mut out = io::stdout().lock();
    out.write_all(&code)
        .and_then(|()| out.flush())
        .map_err(|error| format!("the code cannot be written: {error}"))
}

/// A host that is killed cannot end its compiler, which would work for nobody until its limits end it.
fn end_with(parent: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died before the kernel was told.
    match parent_id() == parent {
        true => Ok(()),
        false => Err(io::Error::other(format!("process {parent}, which wanted its code, is gone"))),
    }
}

fn limit_itself(memory_mib: u32, cpu_seconds: u32) -> io::Result<()> {
    let cpu_seconds = u64::from(cpu_seconds);
    for (resource, soft, hard) in [
        (Resource::Data, u64::from(memory_mib) * 1024 * 1024, u64::from(memory_mib) * 1024 * 1024),
        // The soft limit ends it with a signal that says why, the hard one would not.
        (Resource::Cpu, cpu_seconds, cpu_seconds + 1),
        (Resource::Fsize, CODE_BYTES_MAX, CODE_BYTES_MAX),
        (Resource::Nofile, FILES_MAX, FILES_MAX),
        (Resource::Core, 0, 0),
    ] {
        let allowed = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let limit = Rlimit { current: Some(soft.min(allowed)), maximum: Some(hard.min(allowed)) };
        setrlimit(resource, limit)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(raw_status: i32, said: &str) -> String {
        let compiler = Compiler {
            program: "railhost".into(),
            limits: CompileLimits::default(),
            engine: String::new(),
            turn: Mutex::default(),
        };
        match compiler.judge(ExitStatus::from_raw(raw_status), said) {
            Ok(()) => "fine".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn each_way_in_which_a_compiler_ends_has_its_sentence() {
        let exited = |code: i32| code << 8;
        assert_eq!(judged(exited(0), ""), "fine");
        assert_eq!(
            judged(Signal::ABORT.as_raw(), "memory allocation of 65536 bytes failed\n"),
            "compiling it took more than 1024 MiB of memory"
        );
        assert_eq!(
            judged(exited(101), "panicked: Cannot allocate memory (os error 12)"),
            "compiling it took more than 1024 MiB of memory"
        );
        for said in [
            r#"called `Result::unwrap()` on an `Err` value: Os { code: 11, kind: WouldBlock, message: "Resource temporarily unavailable" }"#,
            r#"The global thread pool has not been initialized.: Os { code: 12, kind: OutOfMemory, message: "Cannot allocate memory" }"#,
        ] {
            assert_eq!(judged(exited(101), said), "compiling it took more than 1024 MiB of memory");
        }
        assert_eq!(judged(exited(101), "Os { code: 110, }"), "cannot be compiled: Os { code: 110, }");
        assert_eq!(judged(Signal::XCPU.as_raw(), ""), "compiling it took more than 60 s of processor time");
        assert_eq!(judged(Signal::XFSZ.as_raw(), ""), "its compiled code has more than 512 MiB");
        assert_eq!(judged(Signal::KILL.as_raw(), ""), "cannot be compiled: signal 9 ended the compiler");
        assert_eq!(
            judged(exited(65), "invalid\n  \u{1b}[31mtype\n"),
            "cannot be compiled: invalid \u{fffd}[31mtype"
        );
    }
}
