//! Transactional requests on the wire, in the versions that librdkafka speaks: a client library would hide the answers.

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, ApiKey, EndTxnRequest, FindCoordinatorRequest, InitProducerIdRequest,
    ListOffsetsRequest, ProduceRequest, RequestHeader, ResponseHeader, TopicName, TransactionalId,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use kafka_protocol::records::{Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType};

use super::cluster::{Ends, Owner, WITHIN};
use crate::harness::records::Rec;

pub struct Wire {
    stream: TcpStream,
}

fn string(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn topic_name(topic: &str) -> TopicName {
    TopicName(string(topic))
}

fn checked<T>(code: i16, value: T) -> Result<T, i16> {
    if code == 0 { Ok(value) } else { Err(code) }
}

impl Wire {
    pub fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the broker listens");
        stream.set_nodelay(true).expect("a socket option");
        stream.set_read_timeout(Some(WITHIN)).expect("a socket option");
        Self { stream }
    }

    fn ask<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        let api = ApiKey::try_from(R::KEY).expect("a request that Kafka knows");
        let header = RequestHeader::default().with_request_api_key(R::KEY).with_request_api_version(version);
        let mut body = BytesMut::new();
        header.encode(&mut body, api.request_header_version(version)).expect("a header");
        request.encode(&mut body, version).expect("a request");
        let length = u32::try_from(body.len()).expect("a small request");
        self.stream.write_all(&length.to_be_bytes()).expect("the broker reads");
        self.stream.write_all(&body).expect("the broker reads");
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).expect("the broker answers");
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut answer).expect("the broker answers");
        let mut answer = Bytes::from(answer);
        ResponseHeader::decode(&mut answer, R::Response::header_version(version)).expect("a header");
        R::Response::decode(&mut answer, version).expect("an answer")
    }

    /// Asks who coordinates, which is this broker, for a new cluster has no coordinator until it is asked. False if
    /// there is none yet.
    pub fn find_coordinator(&mut self, id: &str) -> bool {
        const TRANSACTION: i8 = 1;
        let request = FindCoordinatorRequest::default().with_key(string(id)).with_key_type(TRANSACTION);
        self.ask(3, &request).error_code == 0
    }

    pub fn init(&mut self, id: &str, timeout_ms: i32) -> Result<Owner, i16> {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(TransactionalId(string(id))))
            .with_transaction_timeout_ms(timeout_ms);
        let answer = self.ask(2, &request);
        checked(answer.error_code, Owner { id: answer.producer_id.0, epoch: answer.producer_epoch })
    }

    pub fn add(&mut self, id: &str, owner: Owner, topic: &str) -> Result<(), i16> {
        let place = AddPartitionsToTxnTopic::default().with_name(topic_name(topic)).with_partitions(vec![0]);
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(TransactionalId(string(id)))
            .with_v3_and_below_producer_id(owner.id.into())
            .with_v3_and_below_producer_epoch(owner.epoch)
            .with_v3_and_below_topics(vec![place]);
        let answer = self.ask(0, &request);
        checked(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code, ())
    }

    /// Without an id: no transaction. Without sequence numbers the first is -1; the encoder wants them to rise all the same.
    pub fn produce(
        &mut self,
        id: Option<&str>,
        owner: Owner,
        topic: &str,
        first: i32,
        records: &[Rec],
    ) -> Result<i64, i16> {
        let record = |(index, record): (i32, &Rec)| Record {
            transactional: id.is_some(),
            control: false,
            delete_horizon: false,
            partition_leader_epoch: -1,
            producer_id: owner.id,
            producer_epoch: owner.epoch,
            timestamp_type: TimestampType::Creation,
            offset: i64::from(index),
            sequence: first + index,
            timestamp: record.timestamp,
            key: record.key.clone().map(Bytes::from),
            value: record.value.clone().map(Bytes::from),
            headers: record
                .headers
                .iter()
                .map(|(name, value)| (string(name), value.clone().map(Bytes::from)))
                .collect(),
        };
        let batch: Vec<_> = (0..).zip(records).map(record).collect();
        let mut bytes = BytesMut::new();
        let options = RecordEncodeOptions { version: 2, compression: Compression::None };
        RecordBatchEncoder::encode(&mut bytes, &batch, &options).expect("a batch");
        let partition = PartitionProduceData::default().with_records(Some(bytes.freeze()));
        let data = TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![partition]);
        let request = ProduceRequest::default()
            .with_transactional_id(id.map(|id| TransactionalId(string(id))))
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![data]);
        let answer = self.ask(7, &request);
        let answer = &answer.responses[0].partition_responses[0];
        checked(answer.error_code, answer.base_offset)
    }

    pub fn end(&mut self, id: &str, owner: Owner, commit: bool) -> Result<(), i16> {
        let request = EndTxnRequest::default()
            .with_transactional_id(TransactionalId(string(id)))
            .with_producer_id(owner.id.into())
            .with_producer_epoch(owner.epoch)
            .with_committed(commit);
        checked(self.ask(1, &request).error_code, ())
    }

    pub fn ends(&mut self, topic: &str) -> Result<Ends, i16> {
        const EARLIEST: i64 = -2;
        const LATEST: i64 = -1;
        const UNCOMMITTED: i8 = 0;
        const COMMITTED: i8 = 1;
        let mut offset = |timestamp, isolation| {
            let place = ListOffsetsPartition::default().with_timestamp(timestamp);
            let asked = ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(vec![place]);
            let request = ListOffsetsRequest::default()
                .with_replica_id((-1).into())
                .with_isolation_level(isolation)
                .with_topics(vec![asked]);
            let answer = self.ask(2, &request);
            let answer = &answer.topics[0].partitions[0];
            checked(answer.error_code, answer.offset)
        };
        Ok((offset(EARLIEST, UNCOMMITTED)?, offset(LATEST, COMMITTED)?, offset(LATEST, UNCOMMITTED)?))
    }
}
