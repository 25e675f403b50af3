//! stub
use std::sync::Arc;
#[derive(Default)] pub struct Health {}
impl Health { pub fn set_started(&self){} pub fn set_stopping(&self){} pub fn is_stopping(&self)->bool{false} pub fn beat(&self){} pub fn kafka_answered(&self){} pub fn set_topics(&self,_:Option<String>){} }
#[derive(Clone)] pub struct App { pub cluster: hotspare_cluster::Cluster, pub statuses: crate::partition::status::Statuses, pub config: Arc<crate::config::Config>, pub health: Arc<Health> }
pub async fn bind(a:&str)->std::io::Result<tokio::net::TcpListener>{tokio::net::TcpListener::bind(a).await}
pub async fn run(l: tokio::net::TcpListener, app: App, s: impl Future<Output=()> + Send + 'static){
 use axum::{Router, routing::get};
 let a=app.clone(); let b=app.clone();
 let r = Router::new().route("/v1/status", get(move || { let a=a.clone(); async move { axum::Json(serde_json::json!({"view": a.cluster.view(), "reports": a.statuses.reports()})) } }))
 .route("/v1/history", get(move || { let a=b.clone(); async move { axum::Json(serde_json::json!({"events": a.cluster.history()})) } }));
 axum::serve(l, r).with_graceful_shutdown(s).await.ok();
}
