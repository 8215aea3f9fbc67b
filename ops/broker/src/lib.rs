//! The broker's process: a real nats-server, found or installed, configured and started, and its
//! credentials.
//!
//! ```no_run
//! use broker::{Broker, BrokerConfig};
//!
//! let mut config = BrokerConfig::new("/var/lib/warploom/broker", "prod");
//! config.tenants = vec!["chat".into(), "train".into()];
//! let broker = Broker::start(&config)?;
//! println!("{} {}", broker.url(), broker.credentials_path().display());
//! # Ok::<(), broker::BrokerError>(())
//! ```
//!
//! All functions here block (a start takes tens of milliseconds, a first install some seconds) and
//! need no async runtime. The caller connects by itself: [`Credentials`] has URL, user, password
//! and inbox prefix.

mod binary;
mod broker;
mod config;
mod credentials;
mod discovery;
mod error;
mod files;
mod location;
mod permissions;
mod ports;
mod process;
mod routes;
mod server;
mod start;
mod store;
mod store_limit;
mod wheel;

pub use binary::{MINIMUM_VERSION, NatsServer, Version};
pub use broker::Broker;
pub use config::{BrokerConfig, Lifetime, SIZES, SyncInterval};
pub use credentials::{ACCOUNT, Credentials, Login, SYSTEM_ACCOUNT, TenantLogin};
pub use discovery::SERVER_ENV;
pub use error::BrokerError;
pub use files::{private_dir, private_log};
pub use location::tools_dir;
pub use permissions::Permissions;
pub use routes::Routes;
pub use server::Server;
pub use store::{StoreFault, StoreLook, StoreWatch};
pub use store_limit::{LEAST_STORE, LEAST_STORE_TO_START};
pub use wheel::PINNED_VERSION;

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, BrokerError>;
