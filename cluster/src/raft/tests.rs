use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;

use super::log::Log;
use super::machine::{Machine, Replicated};
use super::types::Types;
use super::*;
use crate::assignment::Board;

struct OnDisk;

fn replicated() -> Arc<Replicated> {
    Arc::new(Replicated::new(Board::new(NodeId(0), 1), 100))
}

impl StoreBuilder<Types, Log, Machine, TempDir> for OnDisk {
    async fn build(&self) -> Result<(TempDir, Log, Machine), StorageError<Types>> {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::open(&folder.path().join("log"), Duration::from_secs(1)).unwrap();
        let machine = Machine::open(&folder.path().join("snapshot"), replicated()).unwrap();
        Ok((folder, log, machine))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stores_pass_the_suite_of_openraft() {
    Suite::test_all(OnDisk).await.unwrap();
}
