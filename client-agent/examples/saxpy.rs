//! y = 2 x + y on a GPU somewhere in the cluster: `cargo run -p client-agent --example saxpy --
//! nats://127.0.0.1:4222 CLUSTER TENANT USER PASSWORD`

use client_agent::{Client, Settings};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, cluster, tenant, user, password] = &args[..] else {
        return Err("usage: saxpy URL CLUSTER TENANT USER PASSWORD".into());
    };
    let settings = Settings::new(url, cluster, tenant).with_login(user, password);
    let client = Client::connect(settings)?;
    let session = client.open()?;
    let image = include_bytes!("../../tests/kernels/saxpy.ptx");
    let saxpy = session.load(image)?.function("saxpy")?;

    let (n, a) = (1000_u32, 2.0_f32);
    let bytes = |value: f32| value.to_le_bytes().repeat(n as usize);
    let x = session.alloc(4 * u64::from(n))?;
    let y = session.alloc(4 * u64::from(n))?;
    session.copy_in(x, &bytes(3.0))?;
    session.copy_in(y, &bytes(1.0))?;
    // Each parameter at its natural alignment: u32 n, f32 a, two addresses.
    let params = [n.to_le_bytes(), a.to_le_bytes()].concat();
    let params = [&params[..], &x.to_le_bytes(), &y.to_le_bytes()].concat();
    session.launch(&saxpy, [n.div_ceil(128), 1, 1], [128, 1, 1], 0, &params)?;

    let mut result = bytes(0.0);
    session.copy_out(y, &mut result)?;
    assert_eq!(result, bytes(7.0), "2 * 3 + 1");
    println!("{n} elements on gpu {}: all are 7", session.opened().gpu);
    Ok(session.close()?)
}
