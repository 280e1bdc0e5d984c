%% @doc What a channel's client settles, seen in the channel's own process.
%%
%% The broker hands each AMQP 0.9.1 method to each registered interceptor before it handles it. From
%% here a method goes on as it came, always: what fails in between is counted, not raised. What is
%% told stands in the trace queue in order with the channel's publishes and deliveries, because the
%% same process sends them.
-module(rabbit_itc_interceptor).

%% The registry takes a module only if it says so.
-behaviour(rabbit_channel_interceptor).

-export([description/0, init/1, intercept/3, applies_to/0]).
-export([register/0, unregister/0, claimants/0]).

-include("rabbit_itc.hrl").

-define(NAME, <<"rabbitmq_itc">>).
%% In the dictionary of a channel that reads a trace queue.
-define(READER, '$rabbitmq_itc_reader').
%% There too: true once the channel has taken anything without acknowledgement.
-define(AUTO, '$rabbitmq_itc_auto').
%% A reader cancels a consumer of this name, which there is not, to have all channels say where they
%% stand: nothing that it has read before tells it.
-define(ASKED, <<"itc.channels">>).
-define(REPLIES, <<"amq.rabbitmq.reply-to">>).
%% An interceptor that claims one of these may change what the broker then does.
-define(TOLD, ['basic.ack', 'basic.nack', 'basic.reject', 'basic.recover', 'basic.recover_async',
               'tx.select', 'tx.commit', 'tx.rollback']).

%% @doc Begin to see the methods of all channels; `init/1' is called in each that there is.
register() ->
    rabbit_registry:register(channel_interceptor, ?NAME, ?MODULE).

%% @doc See none any more.
unregister() ->
    rabbit_registry:unregister(channel_interceptor, ?NAME).

%% @doc The other interceptors that claim methods which are told here.
claimants() ->
    [Module || {_, Module} <- rabbit_registry:lookup_all(channel_interceptor),
               Module =/= ?MODULE,
               Module:applies_to() -- (Module:applies_to() -- ?TOLD) =/= []].

description() ->
    [{description, <<"Settlements for rabbitmq-itc">>}].

%% The broker closes channels for which two interceptors claim one method. It hands each method to
%% each of them all the same, and nothing is changed here, so nothing has to be claimed.
applies_to() ->
    [].

%% @doc The state of a channel that is opened, or whose interceptors have changed, or that
%% `rabbit_itc_watch' asks for: in a traced virtual host it tells where the channel stands.
init(Ch) ->
    try
        VHost = rabbit_channel:get_vhost(Ch),
        {ok, {Connection, Number}} = rabbit_misc:get_proc_name(),
        Place = rabbit_itc_record:place(VHost, Connection, Number, rabbit_channel:get_user(Ch)),
        case claimants() of
            [] -> introduce(Ch, Place), Place;
            _ -> passive
        end
    catch
        Class:Reason:Stack ->
            rabbit_itc_watch:failed(Class, Reason, Stack),
            passive
    end.

intercept(Method, Content, passive) ->
    {Method, Content};
intercept(Method, Content, Place) ->
    try
        seen(Method, Place)
    catch
        Class:Reason:Stack -> rabbit_itc_watch:failed(Class, Reason, Stack)
    end,
    {Method, Content}.

%% Publishes come first, because they are the most.
seen(#'basic.publish'{}, _) ->
    ok;
seen(#'basic.ack'{delivery_tag = Tag, multiple = Multiple}, Place) ->
    settled(<<"acknowledged">>, Tag, Multiple, Place);
seen(#'basic.nack'{delivery_tag = Tag, multiple = Multiple, requeue = Requeue}, Place) ->
    settled(outcome(Requeue), Tag, Multiple, Place);
seen(#'basic.reject'{delivery_tag = Tag, requeue = Requeue}, Place) ->
    settled(outcome(Requeue), Tag, false, Place);
seen(#'basic.consume'{queue = Queue, consumer_tag = Tag, no_ack = Auto}, Place) ->
    reads(Queue),
    consumer(Queue, Tag, Auto, Place);
seen(#'basic.get'{queue = Queue, no_ack = Auto}, Place) ->
    reads(Queue),
    got(Queue, Auto, Auto orelse get(?AUTO), Place);
seen(#'basic.cancel'{consumer_tag = ?ASKED}, _) ->
    get(?READER) =:= true andalso rabbit_itc_watch:ask();
seen(#'basic.recover'{requeue = true}, Place) ->
    tell(<<"recovered">>, [], Place);
seen(#'basic.recover_async'{requeue = true}, Place) ->
    tell(<<"recovered">>, [], Place);
seen(#'tx.select'{}, Place) ->
    tell(<<"selected">>, [], Place);
seen(#'tx.commit'{}, Place) ->
    tell(<<"committed">>, [], Place);
seen(#'tx.rollback'{}, Place) ->
    tell(<<"rolled_back">>, [], Place);
seen(_, _) ->
    ok.

%% Gets are told of channels alone that take without acknowledgement as well: a client that looks
%% into an empty queue all the time makes no records.
got(Queue, Auto, true, Place) ->
    put(?AUTO, true),
    tell(<<"get">>, [text(<<"queue">>, Queue), {<<"auto">>, bool, Auto}], Place);
got(_, _, _, _) ->
    ok.

outcome(true) -> <<"returned">>;
outcome(false) -> <<"rejected">>.

settled(Outcome, Tag, Multiple, Place) ->
    tell(<<"settled">>, [text(<<"outcome">>, Outcome), {<<"delivery_tag">>, long, Tag},
                         {<<"multiple">>, bool, Multiple}], Place).

consumer(Queue, Tag, Auto, Place) ->
    Auto andalso put(?AUTO, true),
    tell(<<"consumer">>, [text(<<"queue">>, Queue), text(<<"consumer_tag">>, Tag),
                          {<<"auto">>, bool, Auto}], Place).

%% Whoever reads a trace queue acknowledges its records: told, each would lead to the next.
reads(Queue) ->
    rabbit_itc_record:is_ours(Queue) andalso put(?READER, true).

tell(Event, Headers, Place) ->
    case get(?READER) of
        true -> ok;
        undefined -> rabbit_itc_record:tell(Event, Headers, Place)
    end.

text(Name, Value) ->
    {Name, longstr, Value}.

%% Where the channel stands: its next delivery tag, and its consumers. The fields of the broker's
%% record are read by their places, which are the same from 3.8 to 4.3; where they do not fit,
%% nothing is told and the service does not know the channel's tags.
introduce(Ch, Place) ->
    Consumers = consumers(Ch),
    [reads(Queue) || {Queue, _, _} <- Consumers],
    case rabbit_itc_record:is_traced(Place) of
        true when element(1, Ch) =:= ch, is_integer(element(5, Ch)) ->
            rabbit_itc_watch:watch(self(), Place),
            rabbit_itc_record:tell(<<"channel">>,
                                   [text(<<"pid">>, rabbit_itc_record:pid_text(self())),
                                    {<<"next_tag">>, long, element(5, Ch)},
                                    {<<"transactional">>, bool, element(4, Ch) =/= none}], Place),
            [consumer(Queue, Tag, Auto, Place) || {Queue, Tag, Auto} <- Consumers];
        _ ->
            ok
    end.

%% The queue, tag and manner of each consumer. Before 4.2 the consumer of direct replies is no entry
%% of the map of consumers, but three texts of their own.
consumers(Ch) ->
    Fields = tuple_to_list(Ch),
    Direct = [{?REPLIES, Tag, true} || {Tag, A, B} <- Fields, is_binary(Tag), is_binary(A), is_binary(B)],
    case [Field || Field <- Fields, is_map(Field)] of
        [Mapping | _] ->
            [{name(amqqueue:get_name(Queue)), Tag, element(1, Parameters)}
             || {Tag, {Queue, Parameters}} <- maps:to_list(Mapping), is_binary(Tag)] ++ Direct;
        [] ->
            Direct
    end.

name({resource, _, queue, Name}) ->
    Name.
