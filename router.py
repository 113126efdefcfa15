import zmq,sys,time
c=zmq.Context(); s=c.socket(zmq.ROUTER); p=s.bind_to_random_port("tcp://127.0.0.1"); print(p,flush=True)
while True:
    f=s.recv_multipart(); s.send_multipart([f[0],b"pong "+f[1]])
