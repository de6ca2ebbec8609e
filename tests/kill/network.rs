//! The network between controller and sshd: a relay that can cut or stall connections.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A relay on its own port.
pub(crate) struct Network {
    pub(crate) port: u16,
    open: Arc<Mutex<Vec<Connection>>>,
}

struct Connection {
    ends: [TcpStream; 2],
    stalled: Arc<AtomicBool>,
}

impl Network {
    /// Relays to a local port.
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let open: Arc<Mutex<Vec<Connection>>> = Arc::default();
        let connections = Arc::clone(&open);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                // Without a server, the client sees its connection close.
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let stalled = Arc::new(AtomicBool::new(false));
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let _ = to.set_nodelay(true);
                    let stalled = Arc::clone(&stalled);
                    std::thread::spawn(move || relay(from, to, &stalled));
                }
                connections.lock().unwrap().push(Connection { ends: [client, server], stalled });
            }
        });
        Self { port, open }
    }

    /// Closes all open connections.
    pub(crate) fn cut(&self) {
        for connection in self.open.lock().unwrap().drain(..) {
            connection.stalled.store(false, Ordering::SeqCst);
            for end in &connection.ends {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
    }

    /// Stops all traffic on the open connections without closing them.
    pub(crate) fn stall(&self) {
        for connection in self.open.lock().unwrap().iter() {
            connection.stalled.store(true, Ordering::SeqCst);
        }
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream, stalled: &AtomicBool) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        while stalled.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if to.write_all(buffer.get(..count).unwrap_or_default()).is_err() {
            break;
        }
    }
    while stalled.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
