package dev.mooncake4j.core.rig;

import dev.mooncake4j.core.channel.ChannelConnection;
import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.channel.SideChannel;
import dev.mooncake4j.core.wire.MalformedMessageException;
import dev.mooncake4j.core.wire.PullRequest;
import dev.mooncake4j.core.wire.PullResponse;
import dev.mooncake4j.core.wire.ReleaseRequest;
import dev.mooncake4j.core.wire.RenewRequest;
import dev.mooncake4j.core.wire.SideChannelRequest;
import dev.mooncake4j.core.wire.WireCodec;
import java.util.ArrayList;
import java.util.List;

/** A prefiller rank that the test plays: it keeps every question and answers what it likes. */
public final class RawPrefiller {
  private final FakeSideChannel channel;
  private final String address;
  private final List<Question> questions = new ArrayList<>();

  RawPrefiller(FakeNetwork network) {
    channel = network.channel();
    address = "tcp://" + RigPrefiller.HOST + ":" + channel.bind(RigPrefiller.HOST);
  }

  /** A question, and the way to answer it. */
  public final class Question {
    private final PeerIdentity from;
    private final SideChannelRequest request;

    private Question(PeerIdentity from, SideChannelRequest request) {
      this.from = from;
      this.request = request;
    }

    /** It, as a pull. */
    public PullRequest pull() {
      return (PullRequest) request;
    }

    /** It, as a release. */
    public ReleaseRequest release() {
      return (ReleaseRequest) request;
    }

    /** It, as a renewal. */
    public RenewRequest renew() {
      return (RenewRequest) request;
    }

    /** Whether it is a pull. */
    public boolean isPull() {
      return request instanceof PullRequest;
    }

    /** Answers; may be called again and again. */
    public void answer(PullResponse response) {
      answerBytes(WireCodec.encode(response));
    }

    /** Says that these are done and nothing follows. */
    public void finish(String... okRequests) {
      answer(
          PullResponse.finished(
              List.of(okRequests), List.of(), null, isPull() ? pull().layoutId() : 0));
    }

    /** Says that these have failed, with proof that nothing is written any more. */
    public void failQuietly(String message, String... requests) {
      answer(PullResponse.finished(List.of(), List.of(requests), message, pull().layoutId()));
    }

    /** Says that these have failed, without such proof, as vLLM's does. */
    public void failUnproven(String message, String... requests) {
      answer(
          new PullResponse(
              PullResponse.Status.FINISH,
              null,
              List.of(requests),
              message,
              pull().layoutId(),
              false));
    }

    /** Refuses the whole. */
    public void error(String message) {
      answer(PullResponse.error(message, 0));
    }

    /** Answers any bytes. */
    public void answerBytes(byte[] frame) {
      channel.reply(from, frame);
    }
  }

  /** Its side channel, {@code tcp://host:port}. */
  public String address() {
    return address;
  }

  /** Questions since the last call. */
  public List<Question> questions() {
    List<Question> taken = List.copyOf(questions);
    questions.clear();
    return taken;
  }

  /** The one question since the last call; fails if there is another number. */
  public Question question() {
    List<Question> taken = questions();
    if (taken.size() != 1) {
      throw new AssertionError("questions=" + taken.size() + ", not one");
    }
    return taken.getFirst();
  }

  /** It dies: connections to it end and its port refuses. */
  public void die() {
    channel.close();
  }

  void poll() {
    channel.poll(
        0,
        new SideChannel.Events() {
          @Override
          public void onRequest(PeerIdentity from, byte[] payload) {
            try {
              questions.add(new Question(from, WireCodec.decodeRequest(payload)));
            } catch (MalformedMessageException e) {
              throw new AssertionError(e);
            }
          }

          @Override
          public void onMalformedRequest(PeerIdentity from, int frames) {
            throw new AssertionError("frames=" + frames);
          }

          @Override
          public void onRequesterGone(PeerIdentity peer) {}

          @Override
          public void onReply(ChannelConnection connection, byte[] payload) {
            throw new AssertionError("a prefiller was answered");
          }

          @Override
          public void onClosed(ChannelConnection connection, String reason) {
            throw new AssertionError("a prefiller has no connections");
          }

          @Override
          public void onFailed(Throwable cause) {
            throw new AssertionError(cause);
          }
        });
  }
}
