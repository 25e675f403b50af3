//! The few requests that we send to a broker ourselves, over plain TCP: librdkafka sleeps 500 ms where one of them
//! has to wait for an abort, and does not tell the ids of topics.

use std::{
    io::{Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        ApiKey, FindCoordinatorRequest, InitProducerIdRequest, ListOffsetsRequest, MetadataRequest, RequestHeader,
        ResponseHeader, TopicName, TransactionalId,
        find_coordinator_response::FindCoordinatorResponse,
        init_producer_id_response::InitProducerIdResponse,
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        list_offsets_response::ListOffsetsResponse,
        metadata_request::MetadataRequestTopic,
        metadata_response::MetadataResponse,
    },
    protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes},
};

const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const FRAME_BYTES_MAX: usize = 16 << 20;
const RETRY_GAP: Duration = Duration::from_millis(2);

const COORDINATOR_LOADING: i16 = 14;
const COORDINATOR_NOT_AVAILABLE: i16 = 15;
const NOT_COORDINATOR: i16 = 16;
const CONCURRENT_TRANSACTIONS: i16 = 51;

/// Why a request of ours failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    #[error("no broker of {0:?} answers: {1}")]
    Unreachable(String, std::io::Error),
    #[error("connection to the broker: {0}")]
    Io(#[from] std::io::Error),
    #[error("answer of the broker: {0}")]
    Protocol(String),
    #[error("broker refused {what} with error code {code}")]
    Refused { what: &'static str, code: i16 },
    #[error("{what} not done within {waited_ms} ms (last error code {code})")]
    TooSlow { what: &'static str, waited_ms: u128, code: i16 },
}

struct Connection {
    stream: TcpStream,
    correlation: i32,
}

impl Connection {
    fn open(address: &str) -> Result<Self, WireError> {
        let mut last = std::io::Error::other("no address");
        let unreachable = |error| WireError::Unreachable(address.to_owned(), error);
        for address in address.to_socket_addrs().map_err(unreachable)? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
                    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
                    return Ok(Self { stream, correlation: 0 });
                }
                Err(error) => last = error,
            }
        }
        Err(WireError::Unreachable(address.to_owned(), last))
    }

    fn open_any(addresses: &str) -> Result<Self, WireError> {
        let mut result = Err(WireError::Protocol("bootstrap.servers is empty".to_owned()));
        for address in addresses.split(',') {
            let address = address.trim();
            let address = address.split_once("://").map_or(address, |(_, rest)| rest);
            result = Self::open(address);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn ask<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response, WireError> {
        self.correlation += 1;
        let api = ApiKey::try_from(R::KEY).map_err(|()| WireError::Protocol(format!("unknown api key {}", R::KEY)))?;
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some(StrBytes::from_static_str("hotspare-fence")));
        let wrong = |error: &dyn std::fmt::Display| WireError::Protocol(error.to_string());
        let mut body = BytesMut::new();
        header.encode(&mut body, api.request_header_version(version)).map_err(|e| wrong(&e))?;
        request.encode(&mut body, version).map_err(|e| wrong(&e))?;
        let length = u32::try_from(body.len()).map_err(|e| wrong(&e))?;
        let mut frame = length.to_be_bytes().to_vec();
        frame.extend_from_slice(&body);
        self.stream.write_all(&frame)?;
        let mut answer = self.read_frame()?;
        let header =
            ResponseHeader::decode(&mut answer, R::Response::header_version(version)).map_err(|e| wrong(&e))?;
        if header.correlation_id != self.correlation {
            return Err(WireError::Protocol("answer to another request".to_owned()));
        }
        R::Response::decode(&mut answer, version).map_err(|e| wrong(&e))
    }

    fn read_frame(&mut self) -> Result<Bytes, WireError> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(WireError::Protocol(format!("answer of {length} bytes")));
        }
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame)?;
        Ok(frame.into())
    }
}

/// Makes every earlier producer with this transactional id unable to write, and waits until its open transaction is
/// aborted. Strictly one request at a time, so that it cannot race with itself.
pub(super) fn fence(
    bootstrap: &str,
    transactional_id: &str,
    transaction_timeout: Duration,
    within: Duration,
) -> Result<(), WireError> {
    let id = StrBytes::from_string(transactional_id.to_owned());
    let request = InitProducerIdRequest::default()
        .with_transactional_id(Some(TransactionalId(id.clone())))
        .with_transaction_timeout_ms(i32::try_from(transaction_timeout.as_millis()).unwrap_or(i32::MAX));
    let begin = Instant::now();
    let mut coordinator = None;
    loop {
        let connection = match &mut coordinator {
            Some(connection) => connection,
            None => match find_coordinator(bootstrap, &id)? {
                Ok(connection) => coordinator.insert(connection),
                Err(code) => {
                    wait_or_give_up("FindCoordinator", begin, within, code)?;
                    continue;
                }
            },
        };
        let answer: InitProducerIdResponse = connection.ask(2, &request)?;
        match answer.error_code {
            0 => return Ok(()),
            CONCURRENT_TRANSACTIONS | COORDINATOR_LOADING => {}
            NOT_COORDINATOR | COORDINATOR_NOT_AVAILABLE => coordinator = None,
            code => return Err(WireError::Refused { what: "InitProducerId", code }),
        }
        wait_or_give_up("InitProducerId", begin, within, answer.error_code)?;
    }
}

fn wait_or_give_up(what: &'static str, begin: Instant, within: Duration, code: i16) -> Result<(), WireError> {
    let waited = begin.elapsed();
    if waited > within {
        return Err(WireError::TooSlow { what, waited_ms: waited.as_millis(), code });
    }
    std::thread::sleep(RETRY_GAP);
    Ok(())
}

fn find_coordinator(bootstrap: &str, id: &StrBytes) -> Result<Result<Connection, i16>, WireError> {
    const TRANSACTION: i8 = 1;
    let mut connection = Connection::open_any(bootstrap)?;
    let request = FindCoordinatorRequest::default().with_key(id.clone()).with_key_type(TRANSACTION);
    let answer: FindCoordinatorResponse = connection.ask(3, &request)?;
    match answer.error_code {
        0 => Connection::open(&format!("{}:{}", &*answer.host, answer.port)).map(Ok),
        code @ (COORDINATOR_LOADING | COORDINATOR_NOT_AVAILABLE) => Ok(Err(code)),
        code => Err(WireError::Refused { what: "FindCoordinator", code }),
    }
}

/// Where a partition of a topic ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    /// For `read_committed` readers.
    pub(super) stable: i64,
    /// With what no transaction has decided yet.
    pub(super) all: i64,
}

/// Where the partition of each topic ends, asked of its leader: librdkafka may wait for its own metadata in steps of 100 ms.
pub(super) fn ends(bootstrap: &str, topics: &[&str], partition: i32) -> Result<Vec<End>, WireError> {
    const READ_UNCOMMITTED: i8 = 0;
    const READ_COMMITTED: i8 = 1;
    let metadata = metadata_of(&mut Connection::open_any(bootstrap)?, topics)?;
    let mut leaders = std::collections::BTreeMap::new();
    let mut ends = Vec::with_capacity(topics.len());
    for topic in topics {
        let address = leader_of(&metadata, topic, partition)
            .ok_or_else(|| WireError::Protocol(format!("partition {partition} of \"{topic}\" has no leader")))?;
        let connection = match leaders.entry(address) {
            std::collections::btree_map::Entry::Occupied(open) => open.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => {
                let connection = Connection::open(new.key())?;
                new.insert(connection)
            }
        };
        let all = end(connection, topic, partition, READ_UNCOMMITTED)?;
        ends.push(End { all, stable: end(connection, topic, partition, READ_COMMITTED)? });
    }
    Ok(ends)
}

fn leader_of(metadata: &MetadataResponse, topic: &str, partition: i32) -> Option<String> {
    let found = metadata.topics.iter().find(|found| found.name.as_ref().is_some_and(|name| &**name == topic))?;
    let found = found.partitions.iter().find(|found| found.partition_index == partition && found.error_code == 0)?;
    let broker = metadata.brokers.iter().find(|broker| broker.node_id == found.leader_id)?;
    Some(format!("{}:{}", &*broker.host, broker.port))
}

fn end(connection: &mut Connection, topic: &str, partition: i32, isolation: i8) -> Result<i64, WireError> {
    const LATEST: i64 = -1;
    let place = ListOffsetsPartition::default().with_partition_index(partition).with_timestamp(LATEST);
    let asked = ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(vec![place]);
    let request = ListOffsetsRequest::default()
        .with_replica_id((-1).into())
        .with_isolation_level(isolation)
        .with_topics(vec![asked]);
    let answer: ListOffsetsResponse = connection.ask(2, &request)?;
    match answer.topics.iter().flat_map(|found| &found.partitions).next() {
        Some(found) if found.error_code == 0 => Ok(found.offset),
        Some(found) => Err(WireError::Refused { what: "ListOffsets", code: found.error_code }),
        None => Err(WireError::Protocol("answer without the partition".to_owned())),
    }
}

fn topic_name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

fn metadata_of(connection: &mut Connection, topics: &[&str]) -> Result<MetadataResponse, WireError> {
    let asked = |topic: &&str| MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
    let request = MetadataRequest::default()
        .with_topics(Some(topics.iter().map(asked).collect()))
        .with_allow_auto_topic_creation(false);
    connection.ask(10, &request)
}

/// The id of a topic, if it exists.
pub(super) fn topic_id(bootstrap: &str, topic: &str) -> Result<Option<String>, WireError> {
    let answer = metadata_of(&mut Connection::open_any(bootstrap)?, &[topic])?;
    Ok(answer
        .topics
        .iter()
        .find(|found| found.error_code == 0)
        .map(|found| uuid::Uuid::from_bytes(*found.topic_id.as_bytes()).to_string()))
}
