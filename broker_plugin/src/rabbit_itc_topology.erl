%% @doc The broker's own tables, as bundles use them: a trace queue's bindings, and the queue that its
%% collector is to the broker, `<trace queue>.batches'.
%%
%% That queue is a record like any other, except that its process is the plugin's: transient, so that it
%% goes with its node, and exclusive to its process, so that clients can do nothing with it.
-module(rabbit_itc_topology).

-export([collected/1, trace_queues/0, keys/1, wishes/1, bind/2, unbind/2, declare/1, remove/1, process/1]).

-include("rabbit_itc.hrl").

-define(WISH, "itc.batch.1.").

%% @doc The queue through which the bundles of a trace queue come.
collected(Queue = #resource{name = Name}) ->
    Queue#resource{name = <<Name/binary, ".batches">>}.

%% @doc The trace queues that there are whose leader is on this node.
trace_queues() ->
    [Queue || VHost <- rabbit_vhost:list_names(), Name <- rabbit_itc_record:names(),
              Queue <- [rabbit_misc:r(VHost, queue, Name)],
              {ok, Record} <- [rabbit_amqqueue:lookup(Queue)], amqqueue:qnode(Record) =:= node()].

%% @doc The routing keys by which a queue is bound to the trace exchange.
keys(Queue) ->
    [Key || #binding{key = Key, args = []} <-
                rabbit_binding:list_for_source_and_destination(source(Queue), Queue)].

%% @doc The routing keys of which a trace queue's reader wants bundles: it binds the queue by each of
%% them behind ?WISH, with which no trace message's key begins. These bindings last as the queue does,
%% and a reader that does not know them takes them away.
wishes(Keys) ->
    [list_to_binary(Wish) || Key <- Keys,
                             Wish <- [string:prefix(binary_to_list(Key), ?WISH)], Wish =/= nomatch].

bind(Queue, Key) ->
    ok = rabbit_binding:add(binding(Queue, Key), ?INTERNAL_USER).

unbind(Queue, Key) ->
    ok = rabbit_binding:remove(binding(Queue, Key), ?INTERNAL_USER).

binding(Queue, Key) ->
    #binding{source = source(Queue), key = Key, destination = Queue}.

source(#resource{virtual_host = VHost}) ->
    rabbit_misc:r(VHost, exchange, ?TRACE_EXCHANGE).

%% @doc Make the calling process the process of a queue, in the place of another.
declare(Queue = #resource{virtual_host = VHost}) ->
    remove(Queue),
    Record = amqqueue:new(Queue, self(), false, false, self(), [], VHost, #{user => ?INTERNAL_USER},
                          rabbit_classic_queue),
    {created, _} = rabbit_amqqueue:internal_declare(Record, false),
    ok.

%% @doc Remove the record of a queue, and its bindings with it.
remove(Queue) ->
    case rabbit_amqqueue:lookup(Queue) of
        {ok, Record} -> rabbit_classic_queue:delete_crashed_internal(Record, ?INTERNAL_USER);
        {error, not_found} -> ok
    end.

%% @doc The process of a queue; `none' where there is no queue.
process(Queue) ->
    case rabbit_amqqueue:lookup(Queue) of
        {ok, Record} -> amqqueue:get_pid(Record);
        {error, not_found} -> none
    end.
