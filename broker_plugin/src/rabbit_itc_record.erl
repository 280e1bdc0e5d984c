%% @doc A record: one message in the trace queue that tells what a channel's client did.
%%
%% It is put into the queue, not published: `amq.rabbitmq.trace' knows the keys `publish.' and
%% `deliver.' alone, and the log of `rabbitmq_tracing' dies of any other. It names that exchange as
%% its own all the same, because the broker traces no delivery of what came through it. `user_id' is
%% the broker's internal user, a name that no client can give, so a record cannot be forged.
-module(rabbit_itc_record).

-export([place/1, place/4, tell/3, is_traced/1, is_ours/1, pid_text/1, version/0]).

-include("rabbit_itc.hrl").

-define(EXCHANGE, <<"amq.rabbitmq.trace">>).
-define(USER, <<"rmq-internal">>).

%% @doc A virtual host, for what is told of no channel.
place(VHost) ->
    #{vhost => VHost, headers => []}.

%% @doc A virtual host, with the headers that all records of one channel share.
place(VHost, Connection, Number, User) ->
    #{vhost => VHost,
      headers => [{<<"connection">>, longstr, Connection},
                  {<<"channel">>, signedint, Number},
                  {<<"user">>, longstr, element(2, User)}]}.

%% @doc Tell an event where the virtual host is traced and has a trace queue; elsewhere do nothing.
tell(Event, Headers, #{vhost := VHost} = Place) ->
    case is_traced(Place) andalso queues(VHost) of
        false -> ok;
        [] -> ok;
        Queues -> put_into(Queues, VHost, <<"settle.", Event/binary>>, properties(Headers, Place))
    end.

%% @doc Tell whether the virtual host is traced on this node: one look into a table.
is_traced(#{vhost := VHost}) ->
    rabbit_trace:enabled(VHost).

%% @doc Tell whether a queue is a trace queue, or another one of the service's.
is_ours(Queue) ->
    lists:any(fun(Name) -> string:prefix(Queue, Name) =/= nomatch end, names()).

%% @doc A process's name in the words of the event exchange.
pid_text(Pid) ->
    list_to_binary(rabbit_misc:pid_to_string(Pid)).

properties(Headers, #{vhost := VHost, headers := Shared}) ->
    #'P_basic'{user_id = ?USER,
               headers = [{<<"itc">>, longstr, version()},
                          {<<"node">>, longstr, atom_to_binary(node(), utf8)},
                          {<<"vhost">>, longstr, VHost},
                          {<<"at">>, long, os:system_time(microsecond)}
                          | Shared ++ Headers]}.

%% @doc The version of this plugin.
version() ->
    {ok, Version} = application:get_key(rabbitmq_itc, vsn),
    list_to_binary(Version).

names() ->
    [iolist_to_binary(Name) || Name <- application:get_env(rabbitmq_itc, trace_queues, [])].

queues(VHost) ->
    lists:append([case rabbit_amqqueue:lookup(rabbit_misc:r(VHost, queue, Name)) of
                      {ok, Queue} -> [Queue];
                      {error, not_found} -> []
                  end || Name <- names()]).

%% Before 3.13 a message is a delivery, since then a container.
put_into(Queues, VHost, Key, Properties) ->
    Exchange = rabbit_misc:r(VHost, exchange, ?EXCHANGE),
    case erlang:function_exported(rabbit_queue_type, deliver, 4) of
        true ->
            Content = rabbit_basic:build_content(Properties, []),
            {ok, Message} = mc_amqpl:message(Exchange, Key, Content),
            rabbit_queue_type:deliver(Queues, Message, #{}, stateless);
        false ->
            Message = rabbit_basic:message(Exchange, Key, Properties, <<>>),
            Delivery = rabbit_basic:delivery(false, false, Message, undefined),
            rabbit_queue_type:deliver(Queues, Delivery, stateless)
    end.
