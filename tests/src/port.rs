//! A port on loopback for a process that is started, killed and started again.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt};

/// Bound here and never listened on: the system then gives it to nobody else, and a host that allows addresses to be used again,
/// as all of ours do, can listen there whenever it runs.
#[derive(Debug)]
pub struct Port {
    pub number: u16,
    _bound: OwnedFd,
}

impl Port {
    pub fn reserve() -> Self {
        let bound = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        sockopt::set_socket_reuseaddr(&bound, true).expect("an option");
        bind(&bound, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address: SocketAddrV4 =
            getsockname(&bound).expect("an address").try_into().expect("an address of version 4");
        Self { number: address.port(), _bound: bound }
    }
}
