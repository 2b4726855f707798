//! The sandbox: whatever a component does, it ends in its own named error, and the host and its neighbours go on.

mod binary;
mod bombs;
mod gate;
mod hostile;
mod loading;
mod neighbours;
mod offences;
mod production;
mod revoked;
mod rotation;
mod swap;
mod tls;
mod tokens;
