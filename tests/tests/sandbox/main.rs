//! The sandbox: whatever a component does, it ends in its own named error, and the host and its neighbours go on.

mod gate;
mod hostile;
mod loading;
mod swap;
mod tls;
mod tokens;
