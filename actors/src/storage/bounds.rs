//! The limits and copies of what is there already: it may have been made under other settings.

use async_nats::jetstream::stream::{self, DiscardPolicy, StorageType};

use super::refusals::{lacks_room, text};
use super::room::{fewer, signed};
use super::store::{COPIES, Storage};
use super::table::{Row, Stored};

impl Storage {
    /// Makes what is not there, and gives what is there the limit and the copies it should have.
    ///
    /// # Errors
    /// Why the first of them that failed cannot be made, limited or copied; the others are, all
    /// the same.
    pub async fn ensure(&self) -> Result<(), String> {
        let mut failed = None;
        for stored in Stored::ALL {
            if let Err(error) = self.ensure_one(stored).await {
                failed.get_or_insert(format!("{}: {error}", self.name(stored)));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// [`Storage::ensure`] for one of them.
    ///
    /// # Errors
    /// Why it cannot be made, limited or copied.
    pub async fn ensure_one(&self, stored: Stored) -> Result<(), String> {
        let stream = match Row::of(stored).bucket {
            Some(_) => self.bucket(stored).await?.stream,
            None => self.stream(stored).await?,
        };
        let info = stream.cached_info();
        let config = self.limit(stored, info.config.clone()).await?;
        self.copy(stored, config, info.state.bytes).await
    }

    /// Sets the limit of a stream that has another one. One that the broker had no room for keeps
    /// what it got.
    async fn limit(
        &self,
        stored: Stored,
        mut config: stream::Config,
    ) -> Result<stream::Config, String> {
        let (mut bytes, least) = self.bytes(stored);
        loop {
            let has = u64::try_from(config.max_bytes).unwrap_or(u64::MAX);
            let bounded = has != u64::MAX && config.max_bytes != 0;
            let wanted = signed(bytes);
            // The server that has the only copy is not asked whether it has room for more.
            let few = self.is_clustered() && config.num_replicas < COPIES;
            if few && bounded && bytes > has && config.discard == DiscardPolicy::New {
                return Ok(config);
            }
            if config.max_bytes == wanted && config.discard == DiscardPolicy::New {
                return Ok(config);
            }
            let before = config.clone();
            (config.max_bytes, config.discard) = (wanted, DiscardPolicy::New);
            match self.jetstream.update_stream(&config).await {
                Ok(_) => return Ok(config),
                Err(error) => match fewer(stored, bytes, least, error.into()) {
                    Ok(next) => bytes = next,
                    // Bounded as it is, if not as it should be.
                    Err(_) if bounded => return Ok(before),
                    Err(error) => return Err(error),
                },
            }
            config = before;
        }
    }

    /// Gives a stream the copies that it should have: it may have been made when there were fewer
    /// servers, or when one was away. Where the broker has no room for as many copies of as many
    /// bytes, the stream is bounded to fewer bytes, but not to fewer than it holds.
    async fn copy(
        &self,
        stored: Stored,
        mut config: stream::Config,
        held: u64,
    ) -> Result<(), String> {
        let (has, wanted) = (config.num_replicas, self.copies(Some(config.num_replicas)));
        let (_, least) = self.bytes(stored);
        let mut made_room = false;
        while config.num_replicas != wanted {
            let mut next = config.clone();
            next.num_replicas = wanted;
            let Err(error) = self.jetstream.update_stream(&next).await else {
                return Ok(());
            };
            let why = format!("{has} of {wanted} copies: {why}", why = text(&error));
            let bytes = u64::try_from(config.max_bytes).unwrap_or(u64::MAX);
            let may_make_room = wanted > has && !made_room && lacks_room(&error);
            match fewer(stored, bytes, least.max(held), error.into()) {
                Ok(bytes) if wanted > has => config.max_bytes = signed(bytes),
                Err(_) if may_make_room => {
                    self.make_room().await;
                    made_room = true;
                }
                _ => return Err(why),
            }
        }
        Ok(())
    }

    /// Bounds what is there to the bytes that will do, or twice what it holds if that is more: what was
    /// made first may have taken what the others need at least. The next [`Storage::ensure`] gives it
    /// what is left.
    pub(super) async fn make_room(&self) {
        for stored in Stored::ALL {
            let (row, (_, least)) = (Row::of(stored), self.bytes(stored));
            if row.storage != StorageType::File {
                continue;
            }
            let Ok(Some(stream)) = self.find_stream(stored).await else {
                continue;
            };
            let info = stream.cached_info();
            let mut config = info.config.clone();
            let bound = least.max(info.state.bytes.saturating_mul(2));
            if config.max_bytes > signed(bound) {
                config.max_bytes = signed(bound);
                let bounded = self.jetstream.update_stream(&config).await;
                tracing::info!(
                    ?stored,
                    bound,
                    ok = bounded.is_ok(),
                    "bounded for others to have room"
                );
            }
        }
    }
}
