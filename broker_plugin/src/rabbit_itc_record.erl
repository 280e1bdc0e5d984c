%% @doc A record: one message in the trace queue that tells what a channel's client did.
%%
%% It is put into the queue, not published: `amq.rabbitmq.trace' knows the keys `publish.' and
%% `deliver.' alone, and the log of `rabbitmq_tracing' dies of any other. It names that exchange as
%% its own all the same, because the broker traces no delivery of what came through it. `user_id' is
%% the broker's internal user, a name that no client can give, so a record cannot be forged. What it
%% tells is a table in its body: a queue's bound in bytes counts bodies alone.
-module(rabbit_itc_record).

-export([place/1, place/4, tell/3, is_traced/1, is_ours/1, pid_text/1, version/0]).
-export([names/0, there/1, message/4, settlement/3, deliver/2]).

-include("rabbit_itc.hrl").

%% @doc A virtual host, for what is told of no channel.
place(VHost) ->
    place(VHost, []).

%% @doc A virtual host, with the fields that all records of one channel share.
place(VHost, Connection, Number, User) ->
    place(VHost, [{<<"connection">>, longstr, Connection},
                  {<<"channel">>, signedint, Number},
                  {<<"user">>, longstr, User}]).

place(VHost, Fields) ->
    #{vhost => VHost,
      fields => rabbit_itc_wire:table([{<<"itc">>, longstr, version()},
                                       {<<"node">>, longstr, atom_to_binary(node(), utf8)},
                                       {<<"vhost">>, longstr, VHost} | Fields])}.

%% @doc Tell an event where the virtual host is traced and has a trace queue; elsewhere do nothing.
tell(Event, Fields, #{vhost := VHost} = Place) ->
    is_traced(Place) andalso
        [tell(rabbit_misc:r(VHost, queue, Name), <<"settle.", Event/binary>>, Fields, Place) || Name <- names()],
    ok.

%% A collector on this node takes it without a message around it, which would cost as much again. It is
%% the process of a queue to which the channel sends its traces as well, so these stay in order.
tell(Queue, Key, Fields, Place) ->
    case rabbit_itc_collectors:collector(Queue) of
        none ->
            Queues = queues(Queue),
            Queues =:= [] orelse deliver(Queues, settlement(Queue, Key, body(Fields, Place)));
        Collector ->
            gen_server:cast(Collector, {settlement, Key, body(Fields, Place)})
    end.

%% @doc The message of a settlement, for a trace queue.
settlement(#resource{virtual_host = VHost}, Key, Body) ->
    message(VHost, Key, undefined, Body).

%% @doc Tell whether the virtual host is traced on this node: one look into a table.
is_traced(#{vhost := VHost}) ->
    rabbit_trace:enabled(VHost).

%% @doc Tell whether a queue is a trace queue, or the one of announcements that goes with it.
is_ours(Queue) ->
    lists:any(fun(Name) -> Queue =:= Name orelse Queue =:= <<Name/binary, ".connections">> end,
              names()).

%% @doc A process's name in the words of the event exchange.
pid_text(Pid) ->
    list_to_binary(rabbit_misc:pid_to_string(Pid)).

body(Fields, #{fields := Shared}) ->
    Own = rabbit_itc_wire:table([{<<"at">>, long, os:system_time(microsecond)} | Fields]),
    <<(byte_size(Shared) + byte_size(Own)):32, Shared/binary, Own/binary>>.

%% @doc The version of this plugin.
version() ->
    {ok, Version} = application:get_key(rabbitmq_itc, vsn),
    list_to_binary(Version).

%% @doc The names of trace queues.
names() ->
    [iolist_to_binary(Name) || Name <- application:get_env(rabbitmq_itc, trace_queues, [])].

%% Where a trace queue has a collector, which may be on another node, records go there.
queues(Queue) ->
    case there(rabbit_itc_topology:collected(Queue)) of
        [] -> there(Queue);
        Collected -> Collected
    end.

%% @doc The record of a queue; none where it is not there.
there(Name) ->
    case rabbit_amqqueue:lookup(Name) of
        {ok, Queue} -> [Queue];
        {error, not_found} -> []
    end.

%% @doc A message of a virtual host that only the broker can have made.
message(VHost, Key, Headers, Body) ->
    Exchange = rabbit_misc:r(VHost, exchange, ?TRACE_EXCHANGE),
    Properties = #'P_basic'{user_id = ?INTERNAL_USER, headers = Headers},
    case is_container() of
        true ->
            {ok, Message} = mc_amqpl:message(Exchange, Key, rabbit_basic:build_content(Properties, Body)),
            Message;
        false ->
            rabbit_basic:message(Exchange, Key, Properties, Body)
    end.

%% @doc Put a message into queues.
deliver(Queues, Message) ->
    {ok, _, _} = case is_container() of
                     true -> rabbit_queue_type:deliver(Queues, Message, #{}, stateless);
                     false ->
                         Delivery = rabbit_basic:delivery(false, false, Message, undefined),
                         rabbit_queue_type:deliver(Queues, Delivery, stateless)
                 end,
    ok.

%% Before 3.13 a message is a record and its delivery another, since then a container.
is_container() ->
    erlang:function_exported(rabbit_queue_type, deliver, 4).
