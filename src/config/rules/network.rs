//! Rules about addresses, certificates and tokens.

use std::net::SocketAddr;
use std::path::Path;

use super::Broken;
use crate::config::sections::{Access, Sections};

pub(super) fn addresses(sections: &Sections, broken: &mut Broken) {
    for (key, text) in [
        ("peers.listen", &sections.peers.listen),
        ("http.listen", &sections.http.listen),
        ("http.metrics_listen", &sections.http.metrics_listen),
    ] {
        if text.parse::<SocketAddr>().is_err() {
            broken.add(key, format!("\"{text}\" is no address to listen at; write IP:PORT"));
        }
    }
    let seeds = sections.cluster.seeds.iter().map(|seed| ("cluster.seeds", seed));
    for (key, text) in seeds.chain([("peers.advertise", &sections.peers.advertise)]) {
        let (host, port) = text.rsplit_once(':').unwrap_or_default();
        if host.is_empty() || port.parse::<u16>().is_err() {
            broken.add(key, format!("\"{text}\" is no address; write HOST:PORT, such as hotspare-0:7400"));
        }
    }
    let endpoint = &sections.traces.endpoint;
    if !endpoint.is_empty() && !endpoint.starts_with("http://") {
        broken.add(
            "traces.endpoint",
            format!(
                "\"{endpoint}\" must begin with http://; name a collector on this host or in the same pod, without TLS"
            ),
        );
    }
    let tls = &sections.tls;
    let has_peer_tls = [&tls.peer_cert, &tls.peer_key, &tls.peer_ca].iter().all(|path| is_set(path));
    let is_beyond_host = sections.peers.listen.parse::<SocketAddr>().is_ok_and(|address| !address.ip().is_loopback());
    if is_beyond_host && !has_peer_tls && !sections.peers.plaintext {
        broken.add(
            "peers.listen",
            format!(
                "\"{}\" is reachable from other hosts without peer TLS; set tls.peer_cert, tls.peer_key and tls.peer_ca, or \
                 peers.plaintext = true if the network is trusted",
                sections.peers.listen
            ),
        );
    }
}

pub(super) fn access(sections: &Sections, broken: &mut Broken) {
    let (auth, tls) = (&sections.auth, &sections.tls);
    if !is_set(&auth.tokens_file) {
        for (key, access) in [("auth.read", auth.read), ("auth.metrics", auth.metrics)] {
            if access == Access::Token {
                broken
                    .add(key, "it is token, but auth.tokens_file is empty, so nobody could; name a file, or set open");
            }
        }
    }
    for certificate in &auth.certificates {
        if !["read", "operate", "admin"].contains(&certificate.role.as_str()) {
            broken.add(
                "auth.certificates",
                format!(
                    "\"{}\" has the role \"{}\"; it must be read, operate or admin",
                    certificate.name, certificate.role
                ),
            );
        }
    }
    for (key, path) in [
        ("tls.http_cert", &tls.http_cert),
        ("tls.http_key", &tls.http_key),
        ("tls.http_client_ca", &tls.http_client_ca),
    ] {
        if is_set(path) {
            broken.add(
                key,
                format!(
                    "it is \"{}\", but this version serves HTTP without TLS; leave it out and listen on a loopback address, \
                     or behind a proxy that does TLS",
                    path.display()
                ),
            );
        }
    }
    for files in
        [vec![("tls.peer_cert", &tls.peer_cert), ("tls.peer_key", &tls.peer_key), ("tls.peer_ca", &tls.peer_ca)]]
    {
        let Some((given, _)) = files.iter().find(|(_, path)| is_set(path)) else {
            continue;
        };
        for (key, _) in files.iter().filter(|(_, path)| !is_set(path)) {
            broken.add_between(key, given, format!("it is empty, but {given} is set; set both or neither"));
        }
    }
}

fn is_set(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}
