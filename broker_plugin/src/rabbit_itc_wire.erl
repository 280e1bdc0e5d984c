%% @doc A message as bytes: what its header and body frames would hold, had the broker sent it by itself.
%%
%% No binary is taken apart by a pattern here: newer Erlangs do not load what OTP 25 makes of one.
-module(rabbit_itc_wire).

-export([record/1, settlement/2, is_settlement/1, table/1]).

-include("rabbit_itc.hrl").

-define(CLASS_BASIC, 60).
-define(HEADERS_ALONE, 16#2000).
%% The properties of a message that has a user, and that is the broker's.
-define(SETTLED_BY_US, <<16#0010:16, (byte_size(?INTERNAL_USER)):8, ?INTERNAL_USER/binary>>).
%% Larger bodies are copied once, when the bundle is made.
-define(COPIED, 4096).

%% @doc The record of a message that came through the trace exchange, with its size; `none' for any other.
record(Message) ->
    case origin(Message) of
        {?TRACE_EXCHANGE, [Key | _]} -> record(Key, content(Message));
        _ -> none
    end.

%% @doc The record of a settlement of this body, with its size.
settlement(Key, Body) ->
    record(Key, #content{properties_bin = ?SETTLED_BY_US, payload_fragments_rev = [Body]}).

%% @doc Tell whether a message is a record of the plugin's own.
is_settlement(Message) ->
    {_, [Key | _]} = origin(Message),
    string:prefix(Key, "settle.") =/= nomatch.

%% Since 3.13 a message is a container, which holds what AMQP 0.9.1 has sent as it was.
origin(#basic_message{exchange_name = #resource{name = Exchange}, routing_keys = Keys}) ->
    {Exchange, Keys};
origin(Container) ->
    {mc:exchange(Container), mc:routing_keys(Container)}.

content(#basic_message{content = Content}) ->
    Content;
content(Container) ->
    case tuple_to_list(Container) of
        [mc, mc_amqpl, #content{} = Content | _] -> Content;
        _ -> mc:protocol_state(mc:convert(mc_amqpl, Container))
    end.

record(Key, Content = #content{payload_fragments_rev = Fragments}) ->
    Properties = properties(Content),
    Body = case Fragments of
               [Whole] -> Whole;
               _ -> iolist_to_binary(lists:reverse(Fragments))
           end,
    Header = 12 + byte_size(Properties),
    Total = 2 + byte_size(Key) + 4 + Header + byte_size(Body),
    Head = <<Total:32, (byte_size(Key)):16, Key/binary, Header:32, ?CLASS_BASIC:16, 0:16,
             (byte_size(Body)):64, Properties/binary>>,
    {4 + Total, case byte_size(Body) of
                    Large when Large > ?COPIED -> [Head, Body];
                    _ -> <<Head/binary, Body/binary>>
                end}.

properties(#content{properties_bin = Bytes}) when is_binary(Bytes) ->
    Bytes;
properties(#content{properties = #'P_basic'{headers = Headers} = Properties}) when is_list(Headers) ->
    case Properties =:= #'P_basic'{headers = Headers} of
        true ->
            Table = table(Headers),
            <<?HEADERS_ALONE:16, (byte_size(Table)):32, Table/binary>>;
        false ->
            rabbit_framing_amqp_0_9_1:encode_properties(Properties)
    end;
properties(#content{properties = Properties}) ->
    rabbit_framing_amqp_0_9_1:encode_properties(Properties).

%% @doc The fields of a table as bytes, without the length that stands before them.
%%
%% The usual ones go into one binary, which takes half of the broker's own time for it.
table(Fields) ->
    table(Fields, <<>>).

table([{Name, longstr, Value} | Rest], Bytes) when is_binary(Value) ->
    table(Rest, <<Bytes/binary, (byte_size(Name)):8, Name/binary, $S, (byte_size(Value)):32, Value/binary>>);
table([{Name, signedint, Value} | Rest], Bytes) ->
    table(Rest, <<Bytes/binary, (byte_size(Name)):8, Name/binary, $I, Value:32/signed>>);
table([{Name, long, Value} | Rest], Bytes) ->
    table(Rest, <<Bytes/binary, (byte_size(Name)):8, Name/binary, $l, Value:64/signed>>);
table([{Name, table, Fields} | Rest], Bytes) ->
    Inner = table(Fields),
    table(Rest, <<Bytes/binary, (byte_size(Name)):8, Name/binary, $F, (byte_size(Inner)):32, Inner/binary>>);
table([Field | Rest], Bytes) ->
    Encoded = rabbit_binary_generator:generate_table([Field]),
    table(Rest, <<Bytes/binary, Encoded/binary>>);
table([], Bytes) ->
    Bytes.
