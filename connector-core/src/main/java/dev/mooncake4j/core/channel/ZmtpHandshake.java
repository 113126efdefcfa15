package dev.mooncake4j.core.channel;

import dev.mooncake4j.connector.SharedSecret;
import dev.mooncake4j.core.channel.Zmtp.Command;
import dev.mooncake4j.core.channel.Zmtp.Role;
import org.jspecify.annotations.Nullable;

/**
 * What is said on one connection before its messages: by the NULL mechanism, as vLLM does it, or,
 * where there is a shared secret, by PLAIN (ZeroMQ RFC 24), in which the side that has bound its
 * port, the ROUTER, is the server. State of the channel's owner.
 *
 * <p>Both sides have the secret or neither has: who asks for none might be anybody who has taken a
 * prefiller's port, so nothing is told it either.
 */
final class ZmtpHandshake {
  private final Role role;
  private final @Nullable SharedSecret secret;

  private boolean greeted;

  /** The command that is waited for; {@code null} before the greeting and after the last one. */
  private @Nullable Command expected;

  ZmtpHandshake(Role role, @Nullable SharedSecret secret) {
    this.role = role;
    this.secret = secret;
  }

  byte[] greeting() {
    return Zmtp.greeting(secret != null, secret != null && role == Role.ROUTER);
  }

  boolean isDone() {
    return greeted && expected == null;
  }

  /** Takes the peer's greeting; returns what is said next, {@code null} for nothing. */
  byte @Nullable [] onGreeting(byte[] greeting) throws ZmtpException {
    checkMechanism(Zmtp.mechanism(greeting));
    greeted = true;
    if (secret == null) {
      expected = Command.READY;
      return Zmtp.ready(role);
    }
    if (role == Role.ROUTER) {
      expected = Command.HELLO;
      return null;
    }
    expected = Command.WELCOME;
    return Zmtp.hello(secret);
  }

  private void checkMechanism(String theirs) throws ZmtpException {
    String ours = secret == null ? Zmtp.NULL : Zmtp.PLAIN;
    if (theirs.equals(ours)) {
      return;
    }
    if (secret != null) {
      throw role == Role.ROUTER
          ? ZmtpException.refused("a shared_secret is asked for: set the prefiller's", theirs)
          : new ZmtpException(
              "the prefiller asks for no shared_secret and one is set here, mechanism="
                  + theirs
                  + ": set the same on both, or on neither");
    }
    if (role == Role.DEALER && theirs.equals(Zmtp.PLAIN)) {
      throw new ZmtpException(
          "the prefiller asks for a shared_secret and none is set here, mechanism=PLAIN: set the"
              + " prefiller's");
    }
    throw new ZmtpException("security mechanism is not NULL, mechanism=" + theirs);
  }

  /**
   * Takes a command of the handshake; returns what is said next, {@code null} for nothing.
   *
   * @throws ZmtpException if it is not the one that is waited for, or says what is refused
   */
  byte @Nullable [] onCommand(Command command, byte[] body) throws ZmtpException {
    if (command != expected) {
      throw new ZmtpException(
          expected == null ? command + " twice" : command + " comes before " + expected);
    }
    SharedSecret known = secret;
    return switch (command) {
      case HELLO -> {
        if (known == null || !Zmtp.isHello(body, known)) {
          throw ZmtpException.refused(
              "the shared_secret is not the prefiller's: set the same on both", "PLAIN");
        }
        expected = Command.INITIATE;
        yield Zmtp.welcome();
      }
      case WELCOME -> {
        expected = Command.READY;
        yield Zmtp.initiate(role);
      }
      case INITIATE -> {
        Zmtp.checkMetadata(body, role);
        expected = null;
        yield Zmtp.ready(role);
      }
      case READY -> {
        Zmtp.checkMetadata(body, role);
        expected = null;
        yield null;
      }
      default -> throw new ZmtpException("no part of a handshake, command=" + command);
    };
  }
}
