%% The broker's records as far as they are used here, so that the plugin is built without the broker.
%% Those of the methods and properties are AMQP 0.9.1's own and do not change.

-record('basic.publish', {ticket, exchange, routing_key, mandatory, immediate}).
-record('basic.ack', {delivery_tag, multiple}).
-record('basic.nack', {delivery_tag, multiple, requeue}).
-record('basic.reject', {delivery_tag, requeue}).
-record('basic.consume', {ticket, queue, consumer_tag, no_local, no_ack, exclusive, nowait, arguments}).
-record('basic.cancel', {consumer_tag, nowait}).
-record('basic.get', {ticket, queue, no_ack}).
-record('basic.recover', {requeue}).
-record('basic.recover_async', {requeue}).
-record('tx.select', {}).
-record('tx.commit', {}).
-record('tx.rollback', {}).

-record('P_basic', {content_type, content_encoding, headers, delivery_mode, priority, correlation_id,
                    reply_to, expiration, message_id, timestamp, type, user_id, app_id, cluster_id}).

%% These are the broker's own, the same from 3.8 to 4.3.
-record(resource, {virtual_host, kind, name}).
-record(binding, {source, key, destination, args = []}).
-record(content, {class_id, properties, properties_bin, protocol, payload_fragments_rev}).
-record(basic_message, {exchange_name, routing_keys, content, id, is_persistent}). % before 3.13
-record(delivery, {mandatory, confirm, sender, message, msg_seq_no, flow}).

-define(TRACE_EXCHANGE, <<"amq.rabbitmq.trace">>).
-define(INTERNAL_USER, <<"rmq-internal">>).
