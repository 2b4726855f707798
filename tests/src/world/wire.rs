//! A wire that a test can freeze, slow down, slice and cut. One that leads to PostgreSQL can also swallow the answer to a chosen
//! function after the server has committed it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Where the wire leads.
#[derive(Clone, Debug)]
pub enum Far {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Through,
    /// Nothing moves, nobody is told.
    Frozen,
    Slow(Duration),
    /// A byte at a time.
    Sliced,
    /// New connections are reset, and the old ones were.
    Refusing,
}

/// Functions of the outbox whose answers can be swallowed.
pub const FUNCTIONS: [&str; 6] = [
    "claim_outbox_batch",
    "complete_outbox_batch",
    "mark_handed_over",
    "extend_outbox_leases",
    "release_outbox_leases",
    "record_late_answer",
];

#[derive(Debug)]
pub struct Wire {
    pub port: u16,
    state: Arc<State>,
    server: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    mode: watch::Sender<Mode>,
    /// Raised to cut every connection there is.
    cuts: watch::Sender<u64>,
    far: Mutex<Far>,
    /// The protocol of PostgreSQL.
    understands: bool,
    armed: Mutex<Option<&'static str>>,
    swallowed: Mutex<BTreeMap<&'static str, u64>>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.server.abort();
        self.cut();
    }
}

impl Wire {
    /// Whatever is spoken on it.
    pub async fn to(far: Far) -> Self {
        Self::lay(far, false).await
    }

    /// It understands what passes, and can swallow answers.
    pub async fn to_postgres(far: Far) -> Self {
        Self::lay(far, true).await
    }

    async fn lay(far: Far, understands: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State {
            mode: watch::Sender::new(Mode::Through),
            cuts: watch::Sender::new(0),
            far: Mutex::new(far),
            understands,
            armed: Mutex::default(),
            swallowed: Mutex::default(),
        });
        let shared = state.clone();
        let server = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, shared.clone()));
            }
        });
        Self { port, state, server }
    }

    pub fn set(&self, mode: Mode) {
        self.state.mode.send_replace(mode);
        if mode == Mode::Refusing {
            self.cut();
        }
    }

    /// From now on it ends elsewhere, and what it carried is cut.
    pub fn lead_to(&self, far: Far) {
        *lock(&self.state.far) = far;
        self.cut();
    }

    /// Resets every connection.
    pub fn cut(&self) {
        self.state.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// The next call of this function is committed, and its caller never hears of it.
    pub fn swallow_next(&self, function: &'static str) {
        *lock(&self.state.armed) = Some(function);
    }

    pub fn disarm(&self) {
        *lock(&self.state.armed) = None;
    }

    /// How often, by function.
    pub fn swallowed(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.state.swallowed).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn carry(near: TcpStream, state: Arc<State>) {
    near.set_nodelay(true).ok();
    // However it ends, its owner sees a reset and no farewell.
    set_socket_linger(&near, Some(Duration::ZERO)).ok();
    if *state.mode.borrow() == Mode::Refusing {
        return;
    }
    let far = lock(&state.far).clone();
    let far: io::Result<Box<dyn Stream>> = match far {
        Far::Tcp(address) => TcpStream::connect(address).await.map(|stream| {
            stream.set_nodelay(true).ok();
            Box::new(stream) as Box<dyn Stream>
        }),
        Far::Unix(path) => UnixStream::connect(path).await.map(|stream| Box::new(stream) as Box<dyn Stream>),
    };
    let Ok(far) = far else { return };
    let ((near_reads, near_writes), (far_reads, far_writes)) = (near.into_split(), tokio::io::split(far));
    let swallowing = Arc::new(AtomicBool::new(false));
    let there = Requests {
        state: state.clone(),
        names: HashMap::new(),
        started: false,
        swallowing: swallowing.clone(),
    };
    let back = Replies { swallowing };
    let mut cuts = state.cuts.subscribe();
    let mut there = Box::pin(pump(near_reads, far_writes, state.mode.subscribe(), there));
    let mut back = Box::pin(pump(far_reads, near_writes, state.mode.subscribe(), back));
    tokio::select! {
        _ = &mut there => {}
        _ = &mut back => {}
        _ = cuts.changed() => {}
    }
}

/// Looks at what passes, and says how much of it goes on.
trait Ear {
    fn hears(&mut self, bytes: &[u8], kept: &mut Vec<u8>) -> Hears;
}

enum Hears {
    PassOn,
    KeepBack,
    End,
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut mode: watch::Receiver<Mode>,
    mut ear: impl Ear,
) -> io::Result<()> {
    let (mut buffer, mut kept) = (vec![0; 16 * 1024], Vec::new());
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        mode.wait_for(|mode| *mode != Mode::Frozen).await.map_err(io::Error::other)?;
        let bytes = &buffer[..read];
        match ear.hears(bytes, &mut kept) {
            Hears::KeepBack => continue,
            Hears::End => return Ok(()),
            Hears::PassOn => {}
        }
        let how = *mode.borrow();
        match how {
            Mode::Slow(pause) => {
                tokio::time::sleep(pause).await;
                to.write_all(bytes).await?;
            }
            Mode::Sliced => {
                for byte in bytes.chunks(1) {
                    to.write_all(byte).await?;
                    tokio::task::yield_now().await;
                }
            }
            _ => to.write_all(bytes).await?,
        }
    }
}

/// What a client of PostgreSQL sends: which function it calls.
struct Requests {
    state: Arc<State>,
    /// Prepared statements that call a function of ours.
    names: HashMap<Vec<u8>, &'static str>,
    started: bool,
    swallowing: Arc<AtomicBool>,
}

impl Ear for Requests {
    fn hears(&mut self, bytes: &[u8], kept: &mut Vec<u8>) -> Hears {
        if !self.state.understands {
            return Hears::PassOn;
        }
        kept.extend_from_slice(bytes);
        while let Some((kind, message)) = next_message(kept, !self.started) {
            match kind {
                // A start, or the question whether the server speaks TLS, which has eight bytes and comes before it.
                None => self.started = message.len() > 4,
                Some(b'P') => {
                    let mut parts = message.split(|byte| *byte == 0);
                    let (name, query) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                    let query = String::from_utf8_lossy(query);
                    self.names.remove(name);
                    if let Some(function) = FUNCTIONS.into_iter().find(|function| query.contains(function)) {
                        self.names.insert(name.to_vec(), function);
                    }
                }
                Some(b'B') => {
                    let name = message.split(|byte| *byte == 0).nth(1).unwrap_or_default();
                    let mut armed = lock(&self.state.armed);
                    if let Some(function) = self.names.get(name).filter(|function| *armed == Some(**function))
                    {
                        *armed = None;
                        *lock(&self.state.swallowed).entry(function).or_default() += 1;
                        self.swallowing.store(true, Ordering::Release);
                    }
                }
                _ => {}
            }
        }
        Hears::PassOn
    }
}

/// What PostgreSQL answers: once it says that the transaction is over, the connection ends instead.
struct Replies {
    swallowing: Arc<AtomicBool>,
}

impl Ear for Replies {
    fn hears(&mut self, bytes: &[u8], kept: &mut Vec<u8>) -> Hears {
        if !self.swallowing.load(Ordering::Acquire) {
            return Hears::PassOn;
        }
        kept.extend_from_slice(bytes);
        while let Some((kind, _)) = next_message(kept, false) {
            if kind == Some(b'Z') {
                return Hears::End;
            }
        }
        Hears::KeepBack
    }
}

/// Takes the first whole message off the front: its kind, which the very first ones have not, and its text.
fn next_message(kept: &mut Vec<u8>, first: bool) -> Option<(Option<u8>, Vec<u8>)> {
    let head = usize::from(!first);
    let length: [u8; 4] = kept.get(head..head + 4)?.try_into().ok()?;
    let end = head + (u32::from_be_bytes(length) as usize).max(4);
    if kept.len() < end {
        return None;
    }
    let message: Vec<u8> = kept.drain(..end).collect();
    Some(((!first).then(|| message[0]), message[head + 4..].to_vec()))
}
