//! The limits and copies of existing streams and buckets, which may have been created under other
//! settings.

use async_nats::jetstream::stream::{self, DiscardPolicy, StorageType};

use super::refusals::{lacks_room, text};
use super::room::{fewer, signed};
use super::store::{COPIES, Storage};
use super::table::{Row, Stored};

impl Storage {
    /// Creates missing streams and buckets, and gives existing ones their limit and their copies.
    ///
    /// # Errors
    /// The reason that the first one that failed cannot be created, limited or copied. The others
    /// are handled all the same.
    pub async fn ensure(&self) -> Result<(), String> {
        let mut failed = None;
        for stored in Stored::ALL {
            if let Err(error) = self.ensure_one(stored).await {
                failed.get_or_insert(format!("{}: {error}", self.name(stored)));
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        for stored in Stored::ALL {
            self.raise(stored).await?;
        }
        Ok(())
    }

    /// Gives a stream the bytes that it should have. All streams must have their copies before: a raised
    /// stream takes the room of copies that are still to be made. A server with more than its share of
    /// single copies would promise more bytes than it may keep.
    async fn raise(&self, stored: Stored) -> Result<(), String> {
        let found = self.find_stream(stored).await;
        let Ok(Some(stream)) = found else {
            return Ok(());
        };
        let config = stream.cached_info().config.clone();
        self.limit(stored, config, true).await.map(drop)
    }

    /// [`Storage::ensure`] for one stream or bucket, which gets no more bytes than it has.
    ///
    /// # Errors
    /// The reason that it cannot be created, limited or copied.
    pub async fn ensure_one(&self, stored: Stored) -> Result<(), String> {
        let stream = match Row::of(stored).bucket {
            Some(_) => self.bucket(stored).await?.stream,
            None => self.stream(stored).await?,
        };
        let info = stream.cached_info();
        let config = self.limit(stored, info.config.clone(), false).await?;
        self.copy(stored, config, info.state.bytes).await
    }

    /// Sets the limit of a stream that has another one; a higher limit only if it is to be raised. A
    /// stream for which the broker had no room keeps the limit that it got.
    async fn limit(
        &self,
        stored: Stored,
        mut config: stream::Config,
        raise: bool,
    ) -> Result<stream::Config, String> {
        let (mut bytes, least) = self.bytes(stored);
        loop {
            let has = u64::try_from(config.max_bytes).unwrap_or(u64::MAX);
            let bounded = has != u64::MAX && config.max_bytes != 0;
            let wanted = signed(bytes);
            // The server with the only copy is not asked if it has room for more.
            let few = self.is_clustered() && config.num_replicas < COPIES;
            if (few || !raise) && bounded && bytes > has && config.discard == DiscardPolicy::New {
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
                    // The stream is bounded, though not as it should be.
                    Err(_) if bounded => return Ok(before),
                    Err(error) => return Err(error),
                },
            }
            config = before;
        }
    }

    /// Gives a stream its number of copies. It may have been created when there were fewer servers,
    /// or when one was away. If the broker lacks room for that many copies, the stream is limited
    /// to fewer bytes, but not to fewer than it holds.
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

    /// Limits each existing stream to its least bytes, or to twice what it holds if that is more.
    /// The streams created first may have taken the least bytes of the others. The next
    /// [`Storage::ensure`] distributes what is left.
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
