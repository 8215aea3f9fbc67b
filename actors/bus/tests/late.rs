//! Servers that let a client in late.

use std::time::Duration;

use bus::{BusSettings, connect};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Longer than the first time to greet and shorter than the second: the time itself is the matter.
const LATE: Duration = Duration::from_millis(1_500);

/// Serves a client as a server of NATS does, but greets late.
async fn serve(stream: TcpStream) -> std::io::Result<()> {
    tokio::time::sleep(LATE).await;
    let (read, mut write) = stream.into_split();
    let info = "INFO {\"server_id\":\"late\",\"max_payload\":1048576,\"headers\":true}\r\n";
    write.write_all(info.as_bytes()).await?;
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await? {
        if line.starts_with("PING") {
            write.write_all(b"PONG\r\n").await?;
        }
    }
    Ok(())
}

/// Starts a server that greets late; returns its address.
async fn late() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    format!("nats://{address}")
}

#[tokio::test]
async fn a_client_gets_in_where_all_servers_are_late() {
    let url = format!("{},{}", late().await, late().await);
    let settings = BusSettings {
        name: "late".into(),
        inbox: "_INBOX".into(),
        patience: Some(Duration::from_secs(60)),
        ..BusSettings::new(url)
    };
    let connected = connect(&settings).await;
    let (client, _changes) = connected.expect("it gets in");
    assert_eq!(client.server_info().server_id, "late");
}
