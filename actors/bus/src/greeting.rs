//! A look at a server before a connection to it. A server greets each connection by itself, so one
//! that hangs is known without a login.

use std::time::Duration;

use async_nats::ServerAddr;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// True if the server greets within `limit`. Also true if it refuses or ends the connection: an
/// attempt to connect fails as fast.
pub(crate) async fn greets(addr: &ServerAddr, limit: Duration) -> bool {
    let first_byte = async {
        let mut stream = TcpStream::connect((addr.host(), addr.port())).await?;
        stream.read_u8().await
    };
    timeout(limit, first_byte).await.is_ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_silent_server_is_told_from_one_that_greets_or_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let addr: ServerAddr = format!("nats://127.0.0.1:{port}").parse().unwrap();
        // The system accepts the connection, as for a stopped process.
        assert!(!greets(&addr, Duration::from_millis(50)).await);
        let greeting = tokio::spawn(async move {
            // The first one is the connection of before.
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.write_all(b"INFO {}\r\n").await;
            }
        });
        assert!(greets(&addr, Duration::from_secs(60)).await);
        greeting.await.unwrap();
        // It is gone: the connection is refused.
        assert!(greets(&addr, Duration::from_secs(60)).await);
    }
}
