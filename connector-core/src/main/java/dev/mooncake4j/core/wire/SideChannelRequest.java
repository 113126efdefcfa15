package dev.mooncake4j.core.wire;

/** What a decoder may ask a prefiller on the side channel. */
public sealed interface SideChannelRequest permits PullRequest, RenewRequest, ReleaseRequest {}
