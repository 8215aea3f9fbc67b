//! The limits and copies of what is there already: it may have been made under other settings.

use async_nats::jetstream::stream::{self, DiscardPolicy, StorageType};

use super::refusals::text;
use super::room::{fewer, signed};
use super::store::Storage;
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
        let config = stream.cached_info().config.clone();
        let config = self.limit(stored, config).await?;
        self.copy(config).await
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
    /// servers, or when one was away.
    async fn copy(&self, mut config: stream::Config) -> Result<(), String> {
        let (has, wanted) = (config.num_replicas, self.copies(Some(config.num_replicas)));
        if has == wanted {
            return Ok(());
        }
        config.num_replicas = wanted;
        match self.jetstream.update_stream(&config).await {
            Ok(_) => Ok(()),
            Err(error) => {
                let why = text(&error);
                Err(format!("{has} of {wanted} copies: {why}"))
            }
        }
    }

    /// Bounds each bucket that holds little to as many bytes as will do: those made first may have taken
    /// what the others need at least.
    pub(super) async fn make_room(&self) {
        for stored in Stored::ALL {
            let (row, (_, least)) = (Row::of(stored), self.bytes(stored));
            if row.bucket.is_none() || row.storage != StorageType::File {
                continue;
            }
            let Ok(Some(stream)) = self.find_stream(stored).await else {
                continue;
            };
            let info = stream.cached_info();
            let mut config = info.config.clone();
            if config.max_bytes > signed(least) && info.state.bytes <= least {
                config.max_bytes = signed(least);
                let bounded = self.jetstream.update_stream(&config).await;
                tracing::info!(
                    ?stored,
                    least,
                    ok = bounded.is_ok(),
                    "bounded for others to have room"
                );
            }
        }
    }
}
